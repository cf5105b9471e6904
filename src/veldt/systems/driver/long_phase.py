"""What the user sees while a role of this process is long in one phase: that it goes on, and when it can stop."""

from __future__ import annotations

import threading
import time

from veldt.formatting import duration
from veldt.systems.driver.monitor import Monitor

_LOOK_S = 0.25  # seconds between two looks
_SAY_S = 2.0  # seconds after a request to stop until a sentence says what it waits for


class LongPhase:
    """Looks at the run between the steps of a phase. Its owner calls `begin` and `end` around each poll of the role."""

    def __init__(self, monitor: Monitor, stop: threading.Event) -> None:
        self._monitor, self._stop = monitor, stop
        self._looked_at = self._began = time.monotonic()
        self._asked_at: float | None = None
        self._is_in_phase = self._has_said = False
        self._last_s: float | None = None  # how long the last phase took
        self._steps = 0

    def begin(self) -> None:
        self._began, self._steps, self._is_in_phase = time.monotonic(), self._monitor.steps, True

    def end(self) -> None:
        self._is_in_phase = False
        if self._monitor.steps > self._steps:  # else it was no phase, but a part of a checkpoint
            self._last_s = time.monotonic() - self._began

    def look(self) -> None:
        """Refreshes the display, or says once how long a request to stop has to wait. Costs almost nothing.

        Called again and again while the role works.

        Raises:
            KeyboardInterrupt: the run has to stop in its first phase, when there is nothing to save.
        """
        now = time.monotonic()
        if not self._is_in_phase or now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        if not self._stop.is_set():
            self._monitor.refresh()
            return
        if self._monitor.steps == 0:
            raise KeyboardInterrupt
        if self._asked_at is None:
            self._asked_at = now
        elif not self._has_said and now - max(self._asked_at, self._began) >= _SAY_S:
            self._has_said = True
            self._monitor.note(f"the checkpoint follows this rollout and its updates{self._left(now)}")

    def _left(self, now: float) -> str:
        left = (self._last_s or 0.0) - (now - self._began)
        return f", in about {duration(left)}" if left > 0.0 else ""
