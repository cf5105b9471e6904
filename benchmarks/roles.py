"""Acting and learning apart: what each role does beside the others, against what it does alone on the same cores.

    python benchmarks/roles.py weights beside solve rllib [--env CartPole-v1] [--seconds 10]

Needs two cores: the learner (and nothing else) on one, actors and replay shard on the other.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psutil
from running import peer, sps_of_learning, train

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.exchange.graph import Graph
from veldt.exchange.weights import SharedWeights
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.cores import allowed_cores
from veldt.runtime.processes import PRELOAD_ROLES, forkserver
from veldt.runtime.shared import Layout
from veldt.systems.apex.graph import apex
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.planning.run_plan import make_run_plan


def weights() -> None:
    """What the learner pays for a version of 4 M parameters, and an actor for a look that finds nothing new."""
    arrays = {"w": np.zeros((2000, 2000), np.float32)}
    layouts = {name: Layout(array.shape, "float32") for name, array in arrays.items()}
    edge = SharedWeights(layouts, forkserver(PRELOAD_ROLES))
    times = [_timed(lambda n=n: edge.publish(n, arrays)) for n in range(50)][2:]
    newest = edge.pull_if_newer(-1, arrays)
    looks = _timed(lambda: [edge.pull_if_newer(newest, arrays) for _ in range(10_000)]) / 10_000
    print(
        f"publish 4 M parameters: {1e3 * statistics.median(times):.2f} ms; nothing new: {1e6 * looks:.2f} µs"
    )


def beside(env: str, seconds: float) -> None:
    """Updates and steps per second of a whole Ape-X, of its learner alone, and of its actors alone."""
    config = find("apex-dqn").config(env)
    changes = {"actors": 2, "num_envs": 16, "evaluator_share": 0.0, "evaluate_every": 0, "threads": 1}
    config = with_settings(config, changes | {"learning_starts": max(1000, config.learn.batch_size)})
    graph = apex(make_run_plan(RunRequest(config, resolve(env))))
    together = _rates(graph, seconds)
    learner = _rates(graph, seconds, stops=("actor",))
    actors = _rates(graph, seconds, stops=("learner",))
    print(
        f"{env}, batch {config.learn.batch_size:,}: learner {together[0]:,.1f} updates/s beside actors, ",
        end="",
    )
    print(f"{learner[0]:,.1f} without: {together[0] / learner[0]:.2f}")
    print(f"{env}: actors {together[1]:,.0f} SPS beside the learner, {actors[1]:,.0f} without: ", end="")
    print(f"{together[1] / actors[1]:.2f}")


def solve(recipes: Sequence[str]) -> None:
    """Seconds from process start to a mean of 475 over 100 episodes of CartPole-v1, five seeds."""
    for recipe in recipes:
        found = []
        for seed in range(1, 6):
            settings = ("--env", "CartPole-v1", "--until", "475", "--seed", str(seed))
            run = train(recipe, *settings)
            found.append(run["process_seconds"] if run["reason"] == "until" else float("inf"))
        seconds = " · ".join(f"{value:.1f}" for value in found)
        print(f"{recipe}: median {statistics.median(found):.1f} s ({seconds})", flush=True)


def rllib(env: str) -> None:
    """Steps per second of IMPALA with 8 actors while it learns, and of RLlib's with as many envs."""
    print("| envs of each of 8 actors | impala, SPS | RLlib, new API | RLlib, old API | of the better |")
    print("| --- " * 5 + "|")
    for count in (1, 8, 32):
        sizes = ("--num-envs", str(8 * count), "--unrolls", str(max(8, count)))
        run = train(
            "impala", "--env", env, "--actors", "8", *sizes, "--steps", str(max(200_000, 30_000 * count))
        )
        ours = sps_of_learning(run["rows"], 300)
        settings = ("--env", env, "--actors", "8", "--envs", str(count))
        theirs = [
            peer("ray", "rllib_impala.py", *settings, "--stack", stack)["sps"] for stack in ("new", "old")
        ]
        both = " | ".join(f"{sps:,.0f}" for sps in theirs)
        print(f"| {count} | {ours:,.0f} | {both} | {ours / max(theirs):.1f} |", flush=True)


def _rates(graph: Graph, seconds: float, stops: Sequence[str] = ()) -> tuple[float, float]:
    """Updates and steps per second; roles named in `stops` are stopped after the replay buffer has been filled."""
    supervisor, edges = start_local(graph)
    rate_limiter = edges["rate_limiter"]
    rate_limiter.intensity = 0.0  # neither waits for the other
    supervisor.start()
    try:
        with _pinned(supervisor):
            _look_until(supervisor, lambda: rate_limiter.updates_L.sum() > 20)
            for process in _processes():
                if process.name().startswith(tuple(stops)) and stops:
                    process.suspend()
            _look_for(supervisor, 1.0)
            before = int(rate_limiter.updates_L.sum()), rate_limiter.steps, time.perf_counter()
            _look_for(supervisor, seconds)
            took = time.perf_counter() - before[2]
            return (int(rate_limiter.updates_L.sum()) - before[0]) / took, (
                rate_limiter.steps - before[1]
            ) / took
    finally:
        supervisor.kill()


@contextlib.contextmanager
def _pinned(supervisor: Any) -> Iterator[None]:
    """The learner on the last core, the others on the rest."""
    *others, last = allowed_cores()
    _look_until(supervisor, lambda: any(process.name() == "learner" for process in _processes()))
    _look_for(supervisor, 1.0)
    for process in _processes():
        process.cpu_affinity([last] if process.name() == "learner" else others)
    yield


def _processes() -> list[psutil.Process]:
    """The roles' processes."""
    family = psutil.Process().children(recursive=True)
    return [process for process in family if process.name().split()[0] in ("learner", "replay", "actor")]


def _look_until(supervisor: Any, holds: Any) -> None:
    end = time.monotonic() + 120
    while not holds():
        supervisor.poll(0.05)
        if time.monotonic() > end:
            raise SystemExit("nothing happens")


def _look_for(supervisor: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        supervisor.poll(0.1)


def _timed(work: Any) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=("weights", "beside", "solve", "rllib"))
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--recipes", nargs="+", default=["impala", "apex-dqn"])
    asked = parser.parse_args()
    for what in asked.what:
        if what == "weights":
            weights()
        elif what == "beside":
            beside(asked.env, asked.seconds)
        elif what == "rllib":
            rllib(asked.env)
        else:
            solve(asked.recipes)


if __name__ == "__main__":
    main()
