"""How many cores and how much memory a run uses: of this process and of those that it has started on this machine."""

from __future__ import annotations

import math
import os
import time
from typing import NamedTuple

# It takes milliseconds to look at all processes: a run with many short phases a second, each with a row of metrics,
# measures no oftener than this.
_LEAST_SECONDS = 1.0
# The system counts a process's time in hundredths of a second: cores of a shorter interval would be off by a tenth.
_LEAST_INTERVAL = 0.1
# The time at which a process began is known to a second or so.
_BEGUN_BEFORE_SECONDS = 2.0


class _Used(NamedTuple):
    cpu_seconds: float
    private_bytes: int
    shared_bytes: int
    parent: int
    command: list[str]
    begun_at: float  # seconds since the epoch


class ResourceUsage:
    """Measures from one call of `metrics` to the next, if a second lies between them. It is made before the run
    starts any process, and the first call measures from then on.

    A process that ended in between counts with the time that it had used at the call before.
    """

    def __init__(self) -> None:
        self._begun_at = time.time()
        self._measured_at = time.perf_counter()
        self._cpu_seconds = {os.getpid(): time.process_time()}
        self._looked_at = -math.inf
        self._metrics: dict[str, float] = {}

    def metrics(self) -> dict[str, float]:
        """Returns the mean number of cores in use since the last measurement, and the bytes of memory in use now.

        Within a second of a measurement, what it gave is returned again. There are no cores in the first tenth of a
        second, of which they cannot be measured.
        """
        now = time.perf_counter()
        seconds = now - self._measured_at
        has_its_cores = "system/cores" in self._metrics or seconds < _LEAST_INTERVAL
        if now - self._looked_at < _LEAST_SECONDS and has_its_cores:
            return dict(self._metrics)
        self._looked_at = now
        usage = _usage()
        # What processes share is nearly the same in all: libraries, and the blocks for weights, envs and replay, of
        # which the process that makes them has every page.
        private = sum(_own_bytes(one, usage.get(one.parent)) for one in usage.values())
        shared = max((one.shared_bytes for one in usage.values()), default=0)
        self._metrics = {"system/memory_bytes": float(private + shared)}
        if seconds >= _LEAST_INTERVAL:
            self._metrics["system/cores"] = sum(map(self._spent, usage.keys(), usage.values())) / seconds
            self._measured_at = now
            self._cpu_seconds = {pid: one.cpu_seconds for pid, one in usage.items()}
        return dict(self._metrics)

    def _spent(self, pid: int, one: _Used) -> float:
        """Returns the CPU seconds of a process since the last measurement."""
        before = self._cpu_seconds.get(pid)
        if before is None:
            # A child that is older than the run is measured from its second measurement on.
            is_older = one.begun_at < self._begun_at - _BEGUN_BEFORE_SECONDS
            return 0.0 if is_older else one.cpu_seconds
        return max(0.0, one.cpu_seconds - before)  # the number may have been given to another process since


def _own_bytes(one: _Used, parent: _Used | None) -> int:
    """Returns the private memory of a process without what it has from its parent, if it was forked.

    Both share a page until one of them writes to it. A fork server's pages have torch and much else, of which its
    children change little; how much, only /proc/PID/smaps_rollup says, which takes 5 to 10 ms for each process.
    """
    if parent is None or parent.command != one.command:  # it has begun with a program of its own
        return one.private_bytes
    return max(0, one.private_bytes - parent.private_bytes)


def _usage() -> dict[int, _Used]:
    """Returns what this process and its descendants use, by their numbers, without those that have just ended."""
    import psutil  # importing it takes time that the start of a run does not have

    this = psutil.Process()
    usage = {}
    for process in (this, *this.children(recursive=True)):
        try:
            with process.oneshot():
                times, memory = process.cpu_times(), process.memory_info()
                parent, command, begun_at = process.ppid(), process.cmdline(), process.create_time()
        except psutil.Error:
            continue
        shared = getattr(memory, "shared", 0)  # only Linux says which pages are shared
        usage[process.pid] = _Used(
            times.user + times.system, memory.rss - shared, shared, parent, command, begun_at
        )
    return usage
