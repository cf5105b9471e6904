"""How runs end: by their steps, by the target return, or on a signal."""

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
from veldt.runtime.endings import ENDINGS
from veldt.runtime.process_state import continue_descendants
from veldt.runtime.watchdog import ask_to_stop
from veldt.sampling.episodes import ReturnTracker
from veldt.systems.driver.monitor import Monitor

_AT_ONCE_AFTER = 1.0  # seconds after the first request to stop from which another one stops at once


@dataclass(frozen=True)
class Outcome:
    """Why a run stopped ("steps", "until", "callback" or "interrupted"), and its summary."""

    reason: str
    summary: dict[str, Any]


def reason_to_stop(
    config: RunConfig, monitor: Monitor, scores: ReturnTracker, stop: threading.Event
) -> str | None:
    """Returns why to stop now, or None."""
    if config.until is not None and scores.reached(config.until):
        if monitor.solved_at_seconds is None:
            monitor.solved_at_seconds = monitor.seconds
        return "until"
    if monitor.steps >= config.steps:
        return "steps"
    if monitor.stop_reason is not None:
        monitor.note(f"stopped by a callback: {monitor.stop_reason}", "callback")
        return "callback"
    return "interrupted" if stop.is_set() else None


_STOPPING = "\nstopping, with a checkpoint if steps were made (again, after a second: at once, without)\n"


@contextlib.contextmanager
def stop_on_signals(text: str = _STOPPING) -> Iterator[threading.Event]:
    """Yields an event that Ctrl-C, SIGTERM or a closed terminal sets; another signal after a second stops at once.

    The first one prints `text`, and also continues processes of the run that were stopped: their part of the last
    checkpoint is needed. From then on an environment of this process that hangs is left after a few seconds, and the
    run with it, as by a second signal.
    """
    event, previous, requested_at, own = threading.Event(), {}, 0.0, os.getpid()

    def request(number: int, frame: Any) -> None:
        nonlocal requested_at
        # A process that an environment has forked, and ends by `terminate`. (Those of the command have no handler.)
        if os.getpid() != own:
            if number != signal.SIGINT:
                os._exit(1)
            return
        now = time.monotonic()
        if event.is_set():
            # A closing terminal sends several signals, and an impatient user presses twice.
            if now - requested_at > _AT_ONCE_AFTER:
                raise KeyboardInterrupt
            return
        # In this order: another signal may interrupt this handler between any two instructions.
        requested_at = now
        event.set()
        ask_to_stop(True)
        # Not `print`: this handler may have interrupted one. The terminal may be closed.
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
        # A thread, because this handler may have interrupted an import.
        threading.Thread(target=continue_descendants, daemon=True, name="continue").start()

    if threading.current_thread() is threading.main_thread():
        for number in ENDINGS:
            previous[number] = signal.signal(number, request)
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if previous:
            ask_to_stop(False)
