"""Which cores this process may use, and who gets which.

Env processes are fixed to one core each (section 4.1 of Stooke & Abbeel): a process that stays put keeps its
caches warm. Only the cores the operating system allows this process are ever handed out, so a run inside `taskset`, a
container or a cluster job stays inside it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence


def allowed_cores() -> list[int]:
    """Indices of the cores this process may run on, in order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))  # macOS has no affinity to ask for


def worker_cores(processes: int, accelerators: int) -> list[int]:
    """The core of each of `processes` env processes.

    One core is kept for each accelerator (the process that feeds it must never wait for a core), unless that would
    leave none. With more processes than cores, cores are shared in turn.
    """
    cores = allowed_cores()
    usable = cores[accelerators:] or cores
    return [usable[i % len(usable)] for i in range(processes)]


def take_share_of_cores(number: int, processes: int) -> None:
    """Keeps the calling process, one of several alike on this machine, to its part of the cores, if all get one."""
    cores = allowed_cores()
    share = len(cores) // processes
    if share and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores[number * share : (number + 1) * share])


def pin(core: int) -> None:
    """Fixes the calling process to `core`, where the platform can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def rotating_cores(cores: Sequence[int]) -> Iterator[Callable[[], None]]:
    """Yields what moves the calling thread to the next of `cores`; afterwards it may run where it could before.

    Threads that are started meanwhile would be fixed to one core, too: nothing inside should start any.
    """
    if len(cores) < 2 or not hasattr(os, "sched_setaffinity"):
        yield lambda: None
        return
    before, turns = os.sched_getaffinity(0), itertools.cycle(cores)
    try:
        yield lambda: os.sched_setaffinity(0, {next(turns)})
    finally:
        os.sched_setaffinity(0, before)


def use_batch_scheduler() -> None:
    """From now on this thread, when there is work for it, lets whoever has the core go on for their turn.

    For work that is done ahead of need in small pieces: each would cost the other a change of the core's hands.
    """
    if hasattr(os, "sched_setscheduler"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def yield_core() -> None:
    """Lets another process run on this core first, if one is waiting for it."""
    os.sched_yield()
