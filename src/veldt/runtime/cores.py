"""Which cores this process may use, and who gets which.

Simulator processes are fixed to one core each (section 4.1 of Stooke & Abbeel): a process that stays put keeps its
caches warm. Only the cores the operating system allows this process are ever handed out, so a run inside `taskset`, a
container or a cluster job stays inside it.
"""

from __future__ import annotations

import os


def allowed_cores() -> list[int]:
    """Indices of the cores this process may run on, in order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))  # macOS has no affinity to ask for


def worker_cores(processes: int, accelerators: int) -> list[int]:
    """The core of each of `processes` simulator processes.

    One core is kept for each accelerator (the process that feeds it must never wait for a core), unless that would
    leave none. With more processes than cores, cores are shared in turn.
    """
    cores = allowed_cores()
    usable = cores[accelerators:] or cores
    return [usable[i % len(usable)] for i in range(processes)]


def pin(core: int) -> None:
    """Fixes the calling process to `core`, where the platform can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
