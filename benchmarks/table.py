"""veldt beside its peers, on this machine, in one run: prints a Markdown table and writes the raw metrics.

    python benchmarks/table.py                         # everything (about 20 minutes on two cores)
    python benchmarks/table.py atari a2c               # some rows
    python benchmarks/table.py --cleanrl CLONE ppo dqn # CleanRL's scripts are not in this repository

The peers' environments are made by `benchmarks/peers/setup.sh`. Every figure is agent steps per second (SPS) unless it
says otherwise. The machine must be idle: with threads waiting for each other, one busy neighbour halves everybody.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from running import best, peer, sps_of_learning, thread_counts, train, veldt

_NO_CLEANRL = "CleanRL (--cleanrl CLONE not given)"


@dataclass(frozen=True)
class TableRow:
    """One row of the table: veldt's figure, the peer's, and their ratio (inverted where less is better)."""

    what: str
    veldt: float
    peer: str
    theirs: float
    less_is_better: bool = False

    @property
    def ratio(self) -> float:
        return self.veldt / self.theirs


def atari(seconds: int, cleanrl: Path | None) -> list[TableRow]:
    """Steps delivered network-ready, without inference."""
    bench = veldt("bench", "sampling", "--seconds", str(seconds), "--json")["metrics"]
    ours = bench["simulate, network-ready, no inference"]["sps"]
    bare = peer("envpool", "ale_bare.py", "--seconds", str(seconds))["sps"]
    cores = len(os.sched_getaffinity(0))
    rows = [TableRow("native Atari, Breakout", ours, f"{cores} x bare ALEInterface loop", cores * bare)]
    for pool in ("envpool-sync", "envpool-async", "ale-vector"):
        theirs = peer("envpool", "atari_pools.py", "--pool", pool, "--seconds", str(seconds))["sps"]
        rows.append(TableRow("native Atari, Breakout", ours, pool, theirs))
    partial = peer(
        "envpool", "atari_pools.py", "--pool", "ale-vector", "--batch", "8", "--seconds", str(seconds)
    )
    rows.append(TableRow("native Atari, Breakout", ours, "ale-vector, partial batches", partial["sps"]))
    both = bench["sampling"]
    rows.append(
        TableRow(
            "sampling with A3C-Net, alternating", both["sps"], both["limit"], both["sps"] / both["of_limit"]
        )
    )
    return rows


def cartpole_workers(seconds: int, cleanrl: Path | None) -> list[TableRow]:
    """Worker processes on an environment of a few microseconds, where the hand-over is everything."""
    rows = []
    for envs in (16, 64):
        arguments = ("--env", "CartPole-v1", "--recipe", "ppo", "--num-envs", str(envs))
        bench = veldt(
            "bench", "sampling", *arguments, "--processes", "2", "--seconds", str(seconds), "--json"
        )
        ours = bench["metrics"]["simulate, network-ready, no inference"]["sps"]
        theirs = peer("envpool", "cartpole_async.py", "--num-envs", str(envs), "--seconds", str(seconds))
        rows.append(TableRow(f"CartPole-v1, worker processes, {envs}", ours, "AsyncVectorEnv", theirs["sps"]))
    return rows


def a2c(seconds: int, cleanrl: Path | None) -> list[TableRow]:
    """A2C on Breakout, 16 x 5, A3C-Net."""
    ours = train("a2c", "--env", "ALE/Breakout-v5", "--steps", str(seconds * 3000))["steps_per_second"]
    plain = best("envpool", "plain_a2c.py", "--seconds", str(seconds))
    sb3 = max(
        peer("sb3", "sb3_a2c_breakout.py", "--vector", vector, "--seconds", str(seconds))["sps"]
        for vector in ("dummy", "subproc")
    )
    return [
        TableRow("A2C, Breakout, 16 x 5", ours, "plain PyTorch on EnvPool", plain),
        TableRow("A2C, Breakout, 16 x 5", ours, "SB3", sb3),
    ]


def ppo(seconds: int, cleanrl: Path | None) -> list[TableRow]:
    """PPO on Breakout, 8 x 128, 4 epochs of 4 minibatches, DQN-Net on 84x84."""
    settings = "--network dqn --preprocessing 84x84 --num-envs 8 --batch-size 1024 --epochs 4 --minibatches 4"
    ours = train("ppo", "--env", "ALE/Breakout-v5", "--steps", str(seconds * 800), *settings.split())[
        "steps_per_second"
    ]
    if cleanrl is None:
        return [TableRow("PPO, Breakout, 8 x 128", ours, _NO_CLEANRL, float("nan"))]
    source = str(cleanrl / "cleanrl" / "ppo_atari_envpool.py")
    steps = str(max(5, seconds) * 1024)
    theirs = best("envpool", "cleanrl_ppo.py", "--steps", steps, "--source", source)
    return [TableRow("PPO, Breakout, 8 x 128", ours, "CleanRL ppo_atari_envpool", theirs)]


def dqn(seconds: int, cleanrl: Path | None) -> list[TableRow]:
    """DQN on Breakout once it learns: batch 32, each step used 8 times, DQN-Net on 84x84, Adam, ε at its end.

    veldt has its recipe's 16 envs, 4 steps of each and then 16 updates, and bf16 where that measures faster.
    CleanRL's script has one env; SB3 is tried with one, as in RL Zoo, and with 8. All have the better number of
    torch threads.
    """
    settings = (
        "--network dqn --preprocessing 84x84 --num-envs 16 --horizon 4 --batch-size 32 --training-intensity 8 "
        "--optimiser adam --learning-rate 1e-4 --target-update-interval 1000 --buffer-size 100000 "
        "--learning-starts 1000 "
        "--epsilon-steps 1000 --epsilon-end 0.01 --evaluate-every 0 --checkpoint-replay none --log-every 0.5"
    )
    steps = str(2_000 + seconds * 250)
    ours = 0.0
    for threads in thread_counts():
        run = train(
            "dqn", "--env", "ALE/Breakout-v5", "--steps", steps, *settings.split(), "--threads", threads
        )
        ours = max(ours, sps_of_learning(run["rows"], warmup=100))
    what = "DQN, Breakout, batch 32, intensity 8"
    arguments = ("--seconds", str(seconds))
    sb3 = {
        f"SB3, {count} envs, {vector}": best(
            "sb3", "sb3_dqn_breakout.py", "--num-envs", count, "--vector", vector, *arguments
        )
        for count, vector in (("1", "dummy"), ("8", "dummy"), ("8", "subproc"))
    }
    print(sb3, file=sys.stderr)
    name, theirs = max(sb3.items(), key=lambda item: item[1])
    rows = [TableRow(what, ours, name, theirs)]
    if cleanrl is None:
        return [*rows, TableRow(what, ours, _NO_CLEANRL, float("nan"))]
    source = str(cleanrl / "cleanrl" / "dqn_atari.py")
    theirs = best("sb3", "cleanrl_dqn.py", "--source", source, *arguments)
    return [*rows, TableRow(what, ours, "CleanRL dqn_atari, 1 env", theirs)]


def cartpole_time(seconds: int, cleanrl: Path | None) -> list[TableRow]:
    """Seconds from process start to a mean of 475 over 100 episodes, median of 5 seeds."""
    ours, theirs = [], []
    for seed in range(1, 6):
        summary = train("ppo", "--env", "CartPole-v1", "--until", "475", "--seed", str(seed))
        ours.append(summary["process_seconds"])
        theirs.append(peer("sb3", "sb3_ppo_cartpole.py", "--seed", str(seed))["solved_after"] or float("inf"))
    print("veldt", [f"{s:.1f}" for s in ours], "SB3", [f"{s:.1f}" for s in theirs], file=sys.stderr)
    medians = statistics.median(ours), statistics.median(theirs)
    return [
        TableRow("PPO, CartPole-v1, seconds to 475", medians[0], "SB3, RL Zoo settings", medians[1], True)
    ]


ROWS: dict[str, Callable[[int, Path | None], list[TableRow]]] = {
    "atari": atari,
    "workers": cartpole_workers,
    "a2c": a2c,
    "ppo": ppo,
    "dqn": dqn,
    "cartpole": cartpole_time,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=list(ROWS), help=f"some of {', '.join(ROWS)}")
    parser.add_argument("--seconds", type=int, default=20, help="length of each measurement")
    parser.add_argument(
        "--cleanrl", type=Path, metavar="CLONE", help="a clone of CleanRL, at the commit of peers/README.md"
    )
    parser.add_argument("--out", type=Path, help="write the raw metrics as JSON")
    asked = parser.parse_args()
    if asked.cleanrl and not (asked.cleanrl / "cleanrl" / "dqn_atari.py").is_file():
        parser.error(
            f"--cleanrl is {asked.cleanrl}: it must be a clone of CleanRL, with cleanrl/dqn_atari.py in it"
        )
    rows: list[TableRow] = []
    print("| what | veldt | peer or limit | theirs | ratio |\n| --- | --- | --- | --- | --- |")
    for name in asked.rows:
        if name not in ROWS:
            parser.error(f"no row '{name}': known are {', '.join(ROWS)}")
        print(f"measuring {name} ...", file=sys.stderr)
        for row in ROWS[name](asked.seconds, asked.cleanrl):
            decimals = 1 if row.less_is_better else 0
            metrics = f"{row.veldt:,.{decimals}f} | {row.peer} | {row.theirs:,.{decimals}f}"
            print(f"| {row.what} | {metrics} | {row.ratio:.2f} |", flush=True)
            rows.append(row)
    if asked.out:
        asked.out.write_text(json.dumps([vars(row) | {"ratio": row.ratio} for row in rows], indent=1))


if __name__ == "__main__":
    main()
