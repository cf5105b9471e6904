"""Chooses the number of training threads again when updates have become slower or faster for some time.

Threads that share an update wait for each other after each operation: when another program takes one of their cores,
they are several times slower than one thread. The choice of the run plan is for the machine as it was when the run
began. It is measured again only after such a change, so a run on a machine that stays as it is keeps its number of
threads, and its results bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from veldt.systems.planning.autotune import ThreadTimes

_WINDOW_S = 2.5  # seconds spent in updates over which an update's time is averaged
_CHANGED = 1.5  # factor of an update's time, up or down, after which threads are measured
_WINDOWS = 2  # successive windows that must have changed
_PAUSE_S, _LONGEST_PAUSE_S = 30.0, 600.0  # between two measurements; doubles each time that the choice stays


class ThreadChoice:
    """The number of threads that updates are computed on.

    Args:
        threads: the run plan's choice.
        measure: times the network's passes on one thread and on all; None where the number never changes.
        note: shows the user a sentence.
    """

    def __init__(
        self, threads: int, measure: Callable[[], ThreadTimes] | None, note: Callable[[str], None]
    ) -> None:
        self.threads = threads
        self._measure, self._note = measure, note
        self._seconds, self._updates = 0.0, 0
        self._usual_s: float | None = None  # an update's time since the last decision
        self._is_warm, self._changed = False, 0
        self._pause_s, self._measured_at = _PAUSE_S, time.monotonic()

    def add(self, seconds: float, updates: int) -> bool:
        """Counts the time of these updates. Returns whether `threads` has changed."""
        self._seconds, self._updates = self._seconds + seconds, self._updates + updates
        if self._measure is None or self._seconds < _WINDOW_S or not self._updates:
            return False
        each_s, self._seconds, self._updates = self._seconds / self._updates, 0.0, 0
        if not self._is_warm:  # the first window includes the first use of every kernel
            self._is_warm = True
        elif self._usual_s is None:
            self._usual_s = each_s
        else:
            is_other = max(each_s, self._usual_s) > _CHANGED * min(each_s, self._usual_s)
            self._changed = self._changed + 1 if is_other else 0
            if self._changed >= _WINDOWS and time.monotonic() > self._measured_at + self._pause_s:
                return self._decide(each_s / self._usual_s, self._measure)
        return False

    def _decide(self, factor: float, measure: Callable[[], ThreadTimes]) -> bool:
        times, before = measure(), self.threads
        self.threads, self._measured_at = times.best, time.monotonic()
        self._usual_s, self._changed = None, 0
        if self.threads == before:
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            return False
        self._pause_s = _PAUSE_S
        change = f"{factor:.1f} times as slow" if factor > 1 else f"{1 / factor:.1f} times as fast"
        self._note(f"threads {self.threads} from now on: updates have become {change} ({times})")
        return True
