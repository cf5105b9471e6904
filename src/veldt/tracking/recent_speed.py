"""Steps per second over the last while, for the display."""

from __future__ import annotations

from collections import deque

_WINDOW_S = 30.0


class RecentSpeed:
    """The mean speed over about the last 30 seconds, or since steps were last done if that is longer ago.

    Steps may come in large amounts, those of a rollout: the speed of an interval without any says nothing.
    """

    def __init__(self) -> None:
        self._intervals = deque[tuple[int, float]]()  # steps and seconds, oldest first

    def add(self, steps: int, seconds: float) -> None:
        """Adds an interval, which began where the one before ended."""
        self._intervals.append((steps, seconds))
        while self._would_do_without_the_oldest():
            self._intervals.popleft()

    def clear(self) -> None:
        """Forgets what was added: what follows has another speed."""
        self._intervals.clear()

    @property
    def steps_per_second(self) -> float:
        """0 if there were no steps."""
        return sum(steps for steps, _ in self._intervals) / max(sum(s for _, s in self._intervals), 1e-9)

    def _would_do_without_the_oldest(self) -> bool:
        later = list(self._intervals)[1:]
        return sum(seconds for _, seconds in later) >= _WINDOW_S and any(steps for steps, _ in later)
