"""Distributed replay beside its peer: four add, four shards store, one draws and renews priorities, all flat out.

    benchmarks/peers/setup.sh ray
    python benchmarks/sharded_replay.py [--rounds 3] [--seconds 10]

Ours is the graph of Ape-X with other people at its ends: actors that have nothing to do but to hand over the same slot,
and a learner that learns nothing. The peer is a Ray actor that holds cpprb's buffer. The rows are those of CartPole-v1
and of Atari's frames; a neighbour's metrics are from the same minute.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Mapping

from flat_out import add, draw
from running import peer

from veldt.config.run_request import RunRequest
from veldt.config.train_config import TrainConfig
from veldt.envs.source import resolve
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.systems.apex.graph import apex
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.planning.run_plan import make_run_plan

ADDERS, BATCH = 4, 512
# Transitions in all, and what the peer stores of each.
ROWS: Mapping[str, tuple[int, list[str]]] = {
    "CartPole-v1": (100_000, ["--shape", "4", "--dtype", "float32"]),
    "ALE/Breakout-v5": (20_000, ["--shape", "4", "104", "80", "--dtype", "uint8"]),
}


def ours(env: str, items: int, shards: int, seconds: float) -> tuple[float, float, int]:
    """Adds and samples a second, and transitions in a block."""
    config: TrainConfig = find("apex-dqn").config(env)
    changes = {"actors": ADDERS, "shards": shards, "num_envs": 4 * ADDERS, "batch_size": BATCH}
    changes |= {"buffer_size": items, "evaluator_share": 0.0, "evaluate_every": 0, "learning_starts": BATCH}
    graph = apex(
        make_run_plan(RunRequest(with_settings(config, changes | {"training_intensity": 1.0}), resolve(env)))
    )
    ends = {"actor": add, "learner": draw}
    roles = [dataclasses.replace(role, entry=ends.get(role.name, role.entry)) for role in graph.roles]
    supervisor, edges = start_local(dataclasses.replace(graph, roles=tuple(roles)))
    rate_limiter = edges["rate_limiter"]
    supervisor.start()
    try:
        deadline = time.monotonic() + 120
        while rate_limiter.steps < 1.2 * items or not rate_limiter.updates_L.any():
            supervisor.poll(0.05)
            if time.monotonic() > deadline:
                raise SystemExit("nothing happens")
        before, begin = (rate_limiter.steps, int(rate_limiter.updates_L[0])), time.perf_counter()
        while time.perf_counter() < begin + seconds:
            supervisor.poll(0.1)
        took = time.perf_counter() - begin
        rates = (
            (rate_limiter.steps - before[0]) / took,
            (int(rate_limiter.updates_L[0]) - before[1]) * BATCH / took,
        )
    finally:
        supervisor.kill()
    return *rates, graph.roles[2].plans[0].steps * 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each, in turn; medians are shown")
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args()
    print(
        "| transitions of | adds/s | cpprb in a Ray actor | ratio | samples/s | cpprb in a Ray actor | ratio |"
    )
    print("| --- " * 7 + "|")
    for env, (items, shape) in ROWS.items():
        found: list[tuple[float, ...]] = []
        for _ in range(asked.rounds):
            adds, samples, block = ours(env, items, 4, asked.seconds)
            theirs = peer(
                "ray", "ray_cpprb.py", "--items", str(items), "--block", str(block), "--batch", str(BATCH),
                "--adders", str(ADDERS), "--seconds", str(asked.seconds), *shape,
            )  # fmt: skip
            found.append((adds, theirs["adds"], samples, theirs["samples"]))
        ours_a, theirs_a, ours_s, theirs_s = map(statistics.median, zip(*found, strict=True))
        print(
            f"| {env} | {ours_a:,.0f} | {theirs_a:,.0f} | {ours_a / theirs_a:.1f} "
            f"| {ours_s:,.0f} | {theirs_s:,.0f} | {ours_s / theirs_s:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
