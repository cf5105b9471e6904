"""GA3C's tuner against every setting that it could have come to: rollouts trained per second, from one run.

    python benchmarks/ga3c.py [--env ALE/Breakout-v5] [--intervals 30] [--seconds 8] [--rounds 3]

Begins with one predictor and one trainer, lets the tuner work for some intervals, and then measures what it came to in
turn with all settings of a grid. (`python benchmarks/roles.py solve --recipes ga3c` has the seconds to a score.)
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import time
from collections.abc import Iterator
from typing import Any

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.role_messages import Note
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.ga3c.graph import ga3c
from veldt.systems.planning.run_plan import make_run_plan
from veldt.systems.roles.messages import SnapshotPart

_WARM_S = 3.0  # in which nothing counts
_PATIENCE_S = 120.0
Setting = tuple[int, int]  # predictors, trainers


@contextlib.contextmanager
def running(env: str, **settings: Any) -> Iterator[tuple[Any, Any, int]]:
    """A whole system with these settings, warm: its supervisor, its counts of steps, and the steps of a rollout."""
    config = with_settings(find("ga3c").config(env), {"evaluate_every": 0, **settings})
    run_plan = make_run_plan(RunRequest(config, resolve(env)))
    supervisor, edges = start_local(ga3c(run_plan))
    supervisor.start()
    try:
        end = time.monotonic() + _PATIENCE_S
        while not edges["rate_limiter"].updates_L[0]:
            supervisor.poll(0.05)
            if time.monotonic() > end:
                raise SystemExit("nothing happens")
        heard(supervisor, _WARM_S)
        yield supervisor, edges["rate_limiter"], run_plan.horizon
    finally:
        supervisor.kill()


def heard(supervisor: Any, seconds: float) -> list[Any]:
    """What roles say meanwhile."""
    messages, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        messages += supervisor.poll(0.05)
    return messages


def tuned(env: str, interval_s: float, intervals: int) -> Setting:
    """What the tuner comes to from one predictor and one trainer; says what it does on the way."""
    with running(env, predictors=1, trainers=1, tuner_interval=interval_s) as (supervisor, _, _):
        for one in heard(supervisor, interval_s * (intervals + 0.5)):
            if isinstance(one.message, Note):
                print(f"  {one.message.text}", flush=True)
        supervisor.request_snapshot()
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            for one in heard(supervisor, 0.1):
                if isinstance(one.message, SnapshotPart) and one.message.state is not None:
                    return one.message.state["predictors"], one.message.state["trainers"]
    raise SystemExit("the model does not say what the tuner came to")


def rollouts_per_second(env: str, setting: Setting, seconds: float) -> float:
    """Rollouts that are learned from in a second. Off is off: nothing tunes."""
    predictors, trainers = setting
    with running(env, predictors=predictors, trainers=trainers, tuner_interval=0.0) as (
        supervisor,
        rate_limiter,
        steps,
    ):
        before, begin = rate_limiter.steps, time.perf_counter()
        heard(supervisor, seconds)
        return (rate_limiter.steps - before) / steps / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="ALE/Breakout-v5")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds")
    parser.add_argument("--intervals", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=3, help="predictors, and trainers, of the grid")
    asked = parser.parse_args()
    begin = (1, 1)
    found = tuned(asked.env, asked.interval, asked.intervals)
    grid = sorted({begin, found, *itertools.product(range(1, asked.most + 1), repeat=2)})
    rates: dict[Setting, list[float]] = {setting: [] for setting in grid}
    for _ in range(asked.rounds):
        for setting in grid:
            rates[setting].append(rollouts_per_second(asked.env, setting, asked.seconds))
    medians = {setting: statistics.median(measured) for setting, measured in rates.items()}
    best = max(grid, key=lambda setting: medians[setting])
    print("\n| predictors | trainers | rollouts/s, median | rounds |\n| ---: | ---: | ---: | --- |")
    for setting in grid:
        rounds = " · ".join(f"{value:,.1f}" for value in rates[setting])
        print(f"| {setting[0]} | {setting[1]} | {medians[setting]:,.1f} | {rounds} |")
    print(f"\nthe tuner came to {found}, the best by hand is {best}")
    print(
        f"of the best: tuned {medians[found] / medians[best]:.2f}, begun with {medians[begin] / medians[best]:.2f}"
    )


if __name__ == "__main__":
    main()
