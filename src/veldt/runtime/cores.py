"""Which cores this process may use, and how they are assigned.

Each env process is pinned to one core (section 4.1 of Stooke & Abbeel), which keeps its caches warm. Only cores that
the operating system allows this process are assigned, so that a run inside `taskset`, a container or a cluster job
stays inside it.
"""

from __future__ import annotations

import os


def allowed_cores() -> list[int]:
    """Returns the sorted indices of the cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))  # macOS has no query for the affinity


def worker_cores(processes: int, accelerators: int) -> list[int]:
    """Returns the core of each of `processes` env processes.

    One core is reserved for each accelerator (the process that feeds it must never wait for a core), unless no core
    would remain. With more processes than cores, cores are shared in turn.
    """
    cores = allowed_cores()
    usable = cores[accelerators:] or cores
    return [usable[i % len(usable)] for i in range(processes)]


def take_share_of_cores(number: int, processes: int) -> None:
    """Restricts this process, one of several equal ones, to its share of the cores, if there is a core for each."""
    cores = allowed_cores()
    share = len(cores) // processes
    if share and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores[number * share : (number + 1) * share])


def pin(core: int) -> None:
    """Pins the calling process to `core`, if the platform supports it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def use_batch_scheduler() -> None:
    """Sets the batch scheduling policy for this thread: when it gets work, it does not interrupt a running thread.

    For work that is done in advance in small pieces: each interruption would cost the other thread a context switch.
    """
    if hasattr(os, "sched_setscheduler"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
