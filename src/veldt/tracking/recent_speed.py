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
        self._steps, self._seconds = 0, 0.0  # of all of them

    def add(self, steps: int, seconds: float) -> None:
        """Adds an interval, which began where the one before ended."""
        self._intervals.append((steps, seconds))
        self._steps, self._seconds = self._steps + steps, self._seconds + seconds
        while self._oldest_is_not_needed():
            oldest_steps, oldest_seconds = self._intervals.popleft()
            self._steps, self._seconds = self._steps - oldest_steps, self._seconds - oldest_seconds

    def clear(self) -> None:
        """Forgets what was added: what follows has another speed."""
        self._intervals.clear()
        self._steps, self._seconds = 0, 0.0

    @property
    def steps_per_second(self) -> float:
        """0 if there were no steps."""
        return self._steps / max(self._seconds, 1e-9)

    def _oldest_is_not_needed(self) -> bool:
        steps, seconds = self._intervals[0]
        return self._seconds - seconds >= _WINDOW_S and self._steps > steps
