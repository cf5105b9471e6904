"""How runs end: by their steps, by their score, or because somebody asks."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from veldt.config.train_config import RunConfig
from veldt.sampling.episodes import ReturnTracker
from veldt.systems.driver.monitor import Monitor

_AT_ONCE_AFTER = 1.0  # seconds between the first request to stop and one that means it


@dataclass(frozen=True)
class Outcome:
    """Why a run stopped ("steps", "until" or "interrupted"), and its summary."""

    reason: str
    summary: dict[str, Any]


def reason_to_stop(
    config: RunConfig, monitor: Monitor, scores: ReturnTracker, stop: threading.Event
) -> str | None:
    """Why to stop now, if there is a reason."""
    if config.until is not None and scores.reached(config.until):
        if monitor.solved_at_seconds is None:
            monitor.solved_at_seconds = monitor.seconds
        return "until"
    if monitor.steps >= config.steps:
        return "steps"
    return "interrupted" if stop.is_set() else None


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C, a termination request or a closed terminal sets; one more after a second ends at once."""
    event, previous, asked_at = threading.Event(), {}, 0.0

    def request(number: int, frame: Any) -> None:
        nonlocal asked_at
        now = time.monotonic()
        if event.is_set():
            # A terminal that closes sends several, and who sees nothing happen presses twice.
            if now - asked_at > _AT_ONCE_AFTER:
                raise KeyboardInterrupt
            return
        event.set()
        asked_at = now
        # Not `print`, which this may have interrupted; the terminal may be closed.
        with contextlib.suppress(OSError):
            os.write(2, b"\nstopping after this batch, with a checkpoint (once more: at once, without)\n")

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            previous[number] = signal.signal(number, request)
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
