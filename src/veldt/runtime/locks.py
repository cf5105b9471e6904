"""Locks between processes that the kernel releases when their holder dies."""

from __future__ import annotations

import fcntl
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing import reduction
from typing import Any


class RecordLocks:
    """`count` locks; a process (with all its threads) holds each at most once, and taking one never blocks.

    They are POSIX record locks on an unnamed file: a process that is killed leaves no lock behind. Picklable only while
    a process is being started.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # Stays open as long as this object: closing one descriptor of the file would release all its locks.
        self._file: Any = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115

    def take(self, number: int) -> bool:
        """Tries to take a lock; returns whether this process holds it now."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def take_any(
        self, numbers: Sequence[int], deadline_s: float, pause_s: float, heartbeat: Callable[[], None]
    ) -> int | None:
        """Takes one of these locks as soon as one is free, and returns its number; None if none was until the deadline.

        Args:
            pause_s: between checks, before each of which `heartbeat` is called.
        """
        end = time.perf_counter() + deadline_s
        while True:
            for number in numbers:
                if self.take(number):
                    return number
            if time.perf_counter() >= end:
                return None
            heartbeat()
            time.sleep(pause_s)

    def give_back(self, number: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)

    def __getstate__(self) -> tuple[int, Any]:
        return self.count, reduction.DupFd(self._file.fileno())

    def __setstate__(self, state: tuple[int, Any]) -> None:
        self.count, descriptor = state
        self._file = open(descriptor.detach(), "r+b", buffering=0)  # noqa: SIM115
