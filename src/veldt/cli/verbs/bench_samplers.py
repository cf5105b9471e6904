"""`veldt bench sampling --samplers N`: samplers beside each other, each in a process with its own share of the cores.

They run free of each other, or wait for each other after every five steps of their envs, as learners do that share an
update (Stooke & Abbeel, table 3).
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from veldt.cli.verbs.bench_rates import sampling_speed
from veldt.config.run_request import RunRequest
from veldt.errors import UsageError
from veldt.own_loop.processes import Processes
from veldt.own_loop.role_process import RoleProcess
from veldt.own_loop.run import run_roles
from veldt.runtime.cores import allowed_cores
from veldt.systems.planning.run_plan import make_run_plan

ROWS = 5  # steps of each env in a rollout
_LOOK_S = 20e-6  # between two looks at the others' counts


def samplers_speed(request: RunRequest, samplers: int, seconds: float, *, is_synchronised: bool) -> float:
    """Returns the steps per second of all samplers together, each with the envs of `request` on its share of the cores.

    Raises UsageError if there are fewer cores than samplers.
    """
    cores = sorted(allowed_cores())
    if samplers > len(cores):
        raise UsageError(
            f"--samplers is {samplers}: each needs a core of its own, and {len(cores)} can be used here"
        )
    with tempfile.TemporaryDirectory() as scratch:
        counts = Path(scratch) / "counts"
        counts.write_bytes(bytes(8 * samplers))
        shared = {"request": request, "cores": cores, "seconds": seconds, "counts": counts}
        sampler = Processes(
            _sample, samplers, kwargs={**shared, "is_synchronised": is_synchronised}, deadline_s=120.0
        )
        done = run_roles({"sampler": sampler}, log=lambda name, values: None)
    return float(sum(done.returned["sampler"]))


def _sample(
    process: RoleProcess,
    request: RunRequest,
    cores: list[int],
    seconds: float,
    counts: Path,
    is_synchronised: bool,
) -> float:
    """In the process of one sampler."""
    os.sched_setaffinity(0, set(cores[process.index :: process.count]))
    finished_N = np.memmap(counts, np.int64, "r+")

    def after_rollout() -> None:
        process.heartbeat()
        finished_N[process.index] += 1
        is_first = finished_N[process.index] == 1  # it warms up: the clocks of all begin together
        while (
            (is_synchronised or is_first) and process.running and finished_N.min() < finished_N[process.index]
        ):
            time.sleep(_LOOK_S)

    speed = sampling_speed(make_run_plan(request), seconds, ROWS, after_rollout)
    finished_N[process.index] = np.iinfo(np.int64).max  # the others need not wait for it
    return speed
