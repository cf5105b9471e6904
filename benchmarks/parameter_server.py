"""The parameter server beside a gradient server in a Ray actor, and beside what the machine can copy.

    python benchmarks/parameter_server.py [--rounds 3] [--seconds 5] [--shards 4] [--learners 2]

Ours is the graph of `gorila` with other people in the learners' place, who have nothing to do but to push the gradient
of DQN-Net (1.7 million float32) and, in the second row, to take the newest parameters after each. The peer does what
Machin's gradient server does, in one Ray actor: with torch's Adam as it comes, as Machin has it, and fused into one
pass, which is the quickest there is (more threads make either slower on two cores). The limit is how often a core
copies a vector of that size: a push that was only written once would be as fast. What a push costs all processes
together, in milliseconds of a core, stays about the same on a busy machine, where pushes a second are a matter of whose
turn it is.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from flat_out import push

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.exchange.parameter_partition import ShardedParameters
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.gorila.graph import gorila
from veldt.systems.planning.run_plan import make_run_plan

ENV = "ALE/Breakout-v5"
PEER = Path(__file__).parent / "peers" / "ray_gradient_server.py"
sys.path.insert(0, str(PEER.parent))
from measure import cpu_seconds  # noqa: E402


def ours(shards: int, learners: int, pulls: bool, seconds: float) -> tuple[float, float, int]:
    """Gradients applied a second, by all shards; what one costs, in ms of a core; and how many numbers it has."""
    changes = {
        "parameter_shards": shards,
        "learners": learners,
        "num_envs": learners,
        "evaluate_every": 0,
    }
    changes |= {"max_staleness": 0, "learner_sync_interval": 1 if pulls else 10**9, "device": "cpu"}
    changes |= {
        "optimiser": "adam",
        "precision": "fp32",
        "threads": 1,
        "buffer_size": 10_000,
        "learning_starts": 1_000,
    }
    config = with_settings(find("gorila").config(ENV), changes)
    run_plan = make_run_plan(RunRequest(config, resolve(ENV)))
    graph = gorila(run_plan)
    roles = [
        dataclasses.replace(role, entry=push) if role.name == "learner" else role for role in graph.roles
    ]
    supervisor, edges = start_local(dataclasses.replace(graph, roles=tuple(roles)))
    parts = [edges[f"part {shard}"] for shard in range(shards)]
    total = len(run_plan.network()[1].fp32_params)
    whole = ShardedParameters(parts, np.empty(total, np.float32))
    supervisor.start()

    def until(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not condition():
            supervisor.poll(0.05)
            if time.monotonic() > end:
                raise SystemExit("nothing happens")

    def version() -> int:
        whole.pull()
        return whole.version

    try:
        until(lambda: version() > 50)
        before, begin, cpu = version(), time.perf_counter(), cpu_seconds()
        until(lambda: time.perf_counter() > begin + seconds)
        pushes, took = version() - before, time.perf_counter() - begin
        return pushes / took, 1e3 * (cpu_seconds() - cpu) / pushes, total
    finally:
        supervisor.kill()


def peer(numbers: int, learners: int, pulls: bool, fused: bool, seconds: float) -> tuple[float, float]:
    """The same of a Ray actor: pushes a second, and what one costs."""
    command = [sys.executable, str(PEER), "--numbers", str(numbers), "--learners", str(learners)]
    command += ["--seconds", str(seconds)] + ["--pulls"] * pulls + ["--fused"] * fused
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = json.loads(output.stdout.strip().splitlines()[-1])
    return found["pushes"], found["cpu_ms"]


def copies(numbers: int, seconds: float) -> float:
    """How often in a second of its own time a core copies so many float32 from memory that is not in its cache."""
    source = [np.ones(numbers, np.float32) for _ in range(16)]
    target = [np.empty(numbers, np.float32) for _ in range(16)]
    done, begin, worked = 0, time.perf_counter(), time.thread_time()
    while time.perf_counter() < begin + seconds:
        np.copyto(target[done % 16], source[done % 16])
        done += 1
    return done / (time.thread_time() - worked)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each, in turn; medians are shown")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--learners", type=int, default=2)
    asked = parser.parse_args()
    print(f"| {asked.learners} learners | pushes/s | ratio | ms of a core for a push | ratio |")
    print("| --- " * 5 + "|")
    for pulls in (False, True):
        rates: dict[str, list[float]] = {}
        costs: dict[str, list[float]] = {}
        own = f"{asked.shards} shards"
        for _ in range(asked.rounds):
            rate, cost, numbers = ours(asked.shards, asked.learners, pulls, asked.seconds)
            found = {own: (rate, cost)}
            for fused in (True, False):
                name = "a Ray actor, " + ("fused Adam" if fused else "Adam as it comes")
                found[name] = peer(numbers, asked.learners, pulls, fused, asked.seconds)
            copied = copies(numbers, 1.0)
            for name, (rate, cost) in (found | {"a copy": (copied, 1e3 / copied)}).items():
                rates.setdefault(name, []).append(rate)
                costs.setdefault(name, []).append(cost)
        best, least = statistics.median(rates[own]), statistics.median(costs[own])
        for name in rates:
            rate, cost = statistics.median(rates[name]), statistics.median(costs[name])
            print(
                f"| {'push and pull' if pulls else 'push'}, {name} | {rate:,.0f} | {best / rate:.1f} | {cost:.1f} | "
                f"{cost / least:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
