"""veldt beside its peers, on this machine, in one run: prints a Markdown table and writes the raw figures.

    python benchmarks/table.py                      # everything (about 15 minutes on two cores)
    python benchmarks/table.py atari a2c            # some rows
    python benchmarks/table.py --cleanrl FILE ppo   # CleanRL's ppo_atari_envpool.py is not in this repository

The peers' environments are made by `benchmarks/peers/setup.sh`. Every figure is agent steps per second (SPS) unless it
says otherwise. The machine must be idle: with threads waiting for each other, one busy neighbour halves everybody.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent / "peers"
VENVS = Path(os.environ.get("VELDT_PEERS", Path.home() / ".cache" / "veldt-peers"))


@dataclass(frozen=True)
class Line:
    """One line of the table: veldt's figure, the peer's, and their ratio (inverted where less is better)."""

    what: str
    veldt: float
    peer: str
    theirs: float
    less_is_better: bool = False

    @property
    def ratio(self) -> float:
        return self.veldt / self.theirs


def peer(venv: str, script: str, *arguments: str) -> dict[str, Any]:
    """The JSON line of a peer's script."""
    python = VENVS / venv / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is missing: run benchmarks/peers/setup.sh {venv}")
    return _json([str(python), str(PEERS / script), *arguments])


def veldt(*arguments: str) -> dict[str, Any]:
    """The JSON object of a veldt command."""
    return _json([sys.executable, "-m", "veldt", *arguments])


def train(*arguments: str) -> dict[str, Any]:
    """The summary of a training run, with its wall seconds from process start in `process_seconds`."""
    scratch = Path(tempfile.mkdtemp())
    try:
        begin = time.perf_counter()
        command = [sys.executable, "-m", "veldt", "train", *arguments, "--run-dir", str(scratch / "run")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        return json.loads((scratch / "run" / "summary.json").read_text()) | {"process_seconds": seconds}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _json(command: list[str]) -> dict[str, Any]:
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(output.stdout.strip().splitlines()[-1])


def atari(seconds: int, cleanrl: Path | None) -> list[Line]:
    """Steps delivered network-ready, without inference."""
    bench = veldt("bench", "sampling", "--seconds", str(seconds), "--json")["figures"]
    ours = bench["simulate, network-ready, no inference"]["sps"]
    bare = peer("envpool", "ale_bare.py", "--seconds", str(seconds))["sps"]
    cores = len(os.sched_getaffinity(0))
    lines = [Line("native Atari, Breakout", ours, f"{cores} x bare ALEInterface loop", cores * bare)]
    for pool in ("envpool-sync", "envpool-async", "ale-vector"):
        theirs = peer("envpool", "atari_pools.py", "--pool", pool, "--seconds", str(seconds))["sps"]
        lines.append(Line("native Atari, Breakout", ours, pool, theirs))
    partial = peer(
        "envpool", "atari_pools.py", "--pool", "ale-vector", "--batch", "8", "--seconds", str(seconds)
    )
    lines.append(Line("native Atari, Breakout", ours, "ale-vector, partial batches", partial["sps"]))
    both = bench["sampling"]
    lines.append(
        Line("sampling with A3C-Net, alternating", both["sps"], both["limit"], both["sps"] / both["of_limit"])
    )
    return lines


def cartpole_workers(seconds: int, cleanrl: Path | None) -> list[Line]:
    """Worker processes on an environment of a few microseconds, where the hand-over is everything."""
    lines = []
    for simulators in (16, 64):
        arguments = ("--env", "CartPole-v1", "--recipe", "ppo", "--num-simulators", str(simulators))
        bench = veldt(
            "bench", "sampling", *arguments, "--processes", "2", "--seconds", str(seconds), "--json"
        )
        ours = bench["figures"]["simulate, network-ready, no inference"]["sps"]
        theirs = peer(
            "envpool", "cartpole_async.py", "--simulators", str(simulators), "--seconds", str(seconds)
        )
        lines.append(
            Line(f"CartPole-v1, worker processes, {simulators}", ours, "AsyncVectorEnv", theirs["sps"])
        )
    return lines


def a2c(seconds: int, cleanrl: Path | None) -> list[Line]:
    """A2C on Breakout, 16 x 5, A3C-Net."""
    ours = train("a2c", "--env", "ALE/Breakout-v5", "--steps", str(seconds * 3000))["sps"]
    plain = _best("envpool", "plain_a2c.py", "--seconds", str(seconds))
    sb3 = max(
        peer("sb3", "sb3_a2c_breakout.py", "--vector", vector, "--seconds", str(seconds))["sps"]
        for vector in ("dummy", "subproc")
    )
    return [
        Line("A2C, Breakout, 16 x 5", ours, "plain PyTorch on EnvPool", plain),
        Line("A2C, Breakout, 16 x 5", ours, "SB3", sb3),
    ]


def ppo(seconds: int, cleanrl: Path | None) -> list[Line]:
    """PPO on Breakout, 8 x 128, 4 epochs of 4 minibatches, DQN-Net on 84x84."""
    settings = (
        "--network dqn --preprocessing 84x84 --num-simulators 8 --batch 1024 --epochs 4 --minibatches 4"
    )
    ours = train("ppo", "--env", "ALE/Breakout-v5", "--steps", str(seconds * 800), *settings.split())["sps"]
    if cleanrl is None:
        return [Line("PPO, Breakout, 8 x 128", ours, "CleanRL (--cleanrl FILE not given)", float("nan"))]
    return [
        Line(
            "PPO, Breakout, 8 x 128",
            ours,
            "CleanRL ppo_atari_envpool",
            _best(
                "envpool", "cleanrl_ppo.py", "--steps", str(max(5, seconds) * 1024), "--source", str(cleanrl)
            ),
        )
    ]


def cartpole_time(seconds: int, cleanrl: Path | None) -> list[Line]:
    """Seconds from process start to a mean of 475 over 100 games, median of 5 seeds."""
    ours, theirs = [], []
    for seed in range(1, 6):
        summary = train("ppo", "--env", "CartPole-v1", "--until", "475", "--seed", str(seed))
        ours.append(summary["process_seconds"])
        theirs.append(peer("sb3", "sb3_ppo_cartpole.py", "--seed", str(seed))["solved_after"] or float("inf"))
    print("veldt", [f"{s:.1f}" for s in ours], "SB3", [f"{s:.1f}" for s in theirs], file=sys.stderr)
    medians = statistics.median(ours), statistics.median(theirs)
    return [Line("PPO, CartPole-v1, seconds to 475", medians[0], "SB3, RL Zoo settings", medians[1], True)]


def _best(venv: str, script: str, *arguments: str) -> float:
    """The best of one and all torch threads."""
    counts = sorted({1, len(os.sched_getaffinity(0))})
    return max(peer(venv, script, *arguments, "--torch-threads", str(n))["sps"] for n in counts)


ROWS: dict[str, Callable[[int, Path | None], list[Line]]] = {
    "atari": atari,
    "workers": cartpole_workers,
    "a2c": a2c,
    "ppo": ppo,
    "cartpole": cartpole_time,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=list(ROWS), help=f"some of {', '.join(ROWS)}")
    parser.add_argument("--seconds", type=int, default=20, help="length of each measurement")
    parser.add_argument("--cleanrl", type=Path, help="CleanRL's ppo_atari_envpool.py")
    parser.add_argument("--out", type=Path, help="write the raw figures as JSON")
    asked = parser.parse_args()
    lines: list[Line] = []
    print("| what | veldt | peer or limit | theirs | ratio |\n| --- | --- | --- | --- | --- |")
    for name in asked.rows:
        if name not in ROWS:
            parser.error(f"no row '{name}': known are {', '.join(ROWS)}")
        print(f"measuring {name} ...", file=sys.stderr)
        for line in ROWS[name](asked.seconds, asked.cleanrl):
            decimals = 1 if line.less_is_better else 0
            figures = f"{line.veldt:,.{decimals}f} | {line.peer} | {line.theirs:,.{decimals}f}"
            print(f"| {line.what} | {figures} | {line.ratio:.2f} |", flush=True)
            lines.append(line)
    if asked.out:
        asked.out.write_text(json.dumps([vars(line) | {"ratio": line.ratio} for line in lines], indent=1))


if __name__ == "__main__":
    main()
