"""`veldt bench sampling --samplers N`: samplers beside each other, each in a process with its own share of the cores.

Each makes rollouts as long as the recipe's. They run free of each other, or wait for each other after each rollout, as
learners do that share an update (Stooke & Abbeel, table 3).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from veldt.cli.verbs.bench_rates import sampling_speed
from veldt.config.run_request import RunRequest
from veldt.errors import UsageError
from veldt.own_loop.processes import Processes
from veldt.own_loop.role_process import RoleProcess
from veldt.own_loop.run import run_roles
from veldt.runtime.cores import allowed_cores, take_share_of_cores
from veldt.systems.planning.run_plan import make_run_plan


def samplers_speed(
    request: RunRequest, samplers: int, seconds: float, *, is_synchronised: bool
) -> tuple[float, list[str]]:
    """Measures samplers together, each with the envs of `request` and a seed of its own on its share of the cores.

    Returns the steps per second of all, and the decisions of the first one's run plan. UsageError if there are fewer
    cores than samplers.
    """
    cores = len(allowed_cores())
    if samplers > cores:
        raise UsageError(
            f"--samplers is {samplers}: each needs a core of its own, and {cores} can be used here"
        )
    with tempfile.TemporaryDirectory() as scratch:
        counts = Path(scratch) / "counts"
        counts.write_bytes(bytes(8 * samplers))
        shared = {
            "request": request,
            "seconds": seconds,
            "counts": counts,
            "is_synchronised": is_synchronised,
        }
        sampler = Processes(_sample, samplers, kwargs=shared, deadline_s=120.0)
        # They have nothing to save, so they need no time to end.
        done = run_roles({"sampler": sampler}, stop_s=0.0, log=lambda name, values: None)
    speeds, decisions = zip(*done.returned["sampler"], strict=True)
    return sum(speeds), decisions[0]


def _sample(
    process: RoleProcess, request: RunRequest, seconds: float, counts: Path, is_synchronised: bool
) -> tuple[float, list[str]]:
    """In the process of one sampler."""
    take_share_of_cores(process.index, process.count)
    run_plan = make_run_plan(_with_own_seed(request, process.index))
    finished_N = np.memmap(counts, np.int64, "r+")

    def after_rollout() -> None:
        finished_N[process.index] += 1
        is_first = finished_N[process.index] == 1  # it warms up: the clocks of all begin together
        if is_synchronised or is_first:
            await_others(finished_N, process.index, lambda: process.running)

    speed = sampling_speed(run_plan, seconds, run_plan.horizon, after_rollout, process.heartbeat)
    finished_N[process.index] = np.iinfo(np.int64).max  # the others need not wait for it
    return speed, list(run_plan.decisions)


def await_others(finished_N: np.ndarray, own: int, goes_on: Callable[[], bool]) -> None:
    """Waits until all samplers have finished as many rollouts as the one with the index `own`; int64 [samplers]."""
    while finished_N.min() < finished_N[own] and goes_on():
        os.sched_yield()  # to one that shares this core


def _with_own_seed(request: RunRequest, index: int) -> RunRequest:
    """Returns a request with other episodes for each sampler: slow steps come at different moments."""
    run = request.config.run
    config = replace(request.config, run=replace(run, seed=run.seed + index))
    return replace(request, config=config)
