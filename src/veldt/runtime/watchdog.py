"""A deadline for code in this process: a thread detects hangs for which another process would be killed."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from veldt.runtime.activity import ends_itself

# The least used signal without a meaning of its own: schedulers send the user-defined signals as warnings, and
# environments set alarms of their own.
_SIGNAL = signal.SIGVTALRM
_INTERVAL = 0.25  # seconds between checks
# Seconds for an environment to close; also in another thread than the main one, where a hang ends the process.
_CLOSE_S, _CLOSE_ELSEWHERE_S = 5.0, 60.0
_GRACE = 20  # checks until the process ends, if an error raised in the code did not stop it
_ASKED_S = 4.0  # until code that does not move on is left, once the user has asked this process to stop
_INTERRUPTED_CODE = 128 + signal.SIGINT
_NOT_LEFT = (
    "interrupted; an environment hangs in code that no error ends, so the process was ended without a checkpoint of "
    "its last steps"
)

_asked_at = math.inf


def ask_to_stop(is_asked: bool) -> None:
    """Says whether the user has asked this process to stop: code that hangs is then left soon, and not reported."""
    global _asked_at
    _asked_at = time.monotonic() if is_asked else math.inf


def _is_awaited_no_more() -> bool:
    return time.monotonic() - _asked_at >= _ASKED_S


def leave_if_asked(silent_s: float, longest_s: float) -> None:
    """Raises KeyboardInterrupt if the user has asked this process to stop, and the code that it awaits seems to hang.

    Args:
        silent_s: seconds in which that code has made no progress.
        longest_s: the longest such time after which it went on: code that is slow is not left like code that hangs.
    """
    if silent_s >= max(_ASKED_S, 2.0 * longest_s) and _is_awaited_no_more():
        raise KeyboardInterrupt


def _to_standard_error(sentence: str, where: str, is_final: bool) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"\n{where}veldt: {sentence}\n")
        sys.stderr.flush()


_report_hang: Callable[[str, str, bool], None] = _to_standard_error


def report_hang_to(report: Callable[[str, str, bool], None]) -> None:
    """Sets the function that gets a sentence, a traceback and `is_final` before a watchdog ends the process."""
    global _report_hang
    _report_hang = report


class Watchdog:
    """While `watching` is set, the thread that made this must change `progress` every `deadline_s` seconds.

    Else TimeoutError is raised in that thread, whether it sleeps or loops. In the main thread it is KeyboardInterrupt,
    and after 4 seconds already (or twice the longest time that the code ever needed), if the user has asked this
    process to stop (`ask_to_stop`). If the code still continues (it caught the error, or is deep in a native library),
    the watchdog ends the process with `describe_hang` and a traceback; it also does so for every hang in a thread other
    than the main one, which no signal reaches. Native code that holds the interpreter's lock cannot be detected from
    inside this process: this needs worker processes.

    Args:
        progress: returns a value that stays equal if and only if nothing has happened.
        describe_hang: returns one sentence for standard error, or for the function set by `report_hang_to`.
        setting: the setting of the deadline, appended to it in a message.
        is_final: whether the same would happen again in a new process.
        is_left_when_asked: whether a request to stop shortens the deadline.
    """

    def __init__(
        self,
        deadline_s: float,
        progress: Callable[[], Any],
        describe_hang: Callable[[], str],
        setting: str = "",
        is_final: bool = True,
        is_left_when_asked: bool = True,
    ) -> None:
        self.watching, self._is_final, self._is_left_early = False, is_final, False
        self._deadline_s, self._progress, self._last_words = deadline_s, progress, describe_hang
        self._overdue = f"no answer within {deadline_s:g} s{setting}, it counts as hung"
        self._watched = threading.get_ident()
        self._by_signal = threading.current_thread() is threading.main_thread()
        self._is_left_when_asked = is_left_when_asked and self._by_signal
        if self._by_signal:
            self._handler = signal.signal(_SIGNAL, self._interrupt)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")
        self._thread.start()

    def close(self) -> None:
        """Stops watching; to be called in the thread that made this."""
        self.watching = False
        self._closed.set()
        self._thread.join()
        if self._by_signal:
            signal.signal(_SIGNAL, self._handler)

    def _interrupt(self, number: int, frame: Any) -> None:
        if self.watching:
            raise KeyboardInterrupt if self._is_left_early else TimeoutError(self._overdue)

    def _watch(self) -> None:
        interval = min(_INTERVAL, self._deadline_s / 4)
        # Counts checks instead of time: a process that was stopped for an hour is not overdue.
        patience, hastened = (math.ceil(seconds / interval) for seconds in (self._deadline_s, _ASKED_S))
        before, looks, longest, since = None, 0, 0, 0
        while not self._closed.wait(interval):
            now = self._progress() if self.watching else None
            is_silent = now is not None and now == before
            if not is_silent:
                longest = max(longest, looks)
            looks, before = looks + 1 if is_silent else 0, now
            is_over = looks >= patience or since > 0 or self._is_left(looks, max(hastened, 2 * longest))
            since = since + 1 if looks and is_over else 0
            if since == 1 and self._by_signal:
                self._is_left_early = looks < patience
                signal.pthread_kill(self._watched, _SIGNAL)
            elif since > (_GRACE if self._by_signal else 0):
                self._give_up()

    def _is_left(self, looks: int, hastened: int) -> bool:
        return self._is_left_when_asked and looks >= hastened and _is_awaited_no_more()

    def _give_up(self) -> None:
        if self._is_left_early:
            _report_hang(_NOT_LEFT, "", True)
            ends_itself(_INTERRUPTED_CODE)
            os._exit(_INTERRUPTED_CODE)
        frame = sys._current_frames().get(self._watched)
        where = "".join(traceback.format_stack(frame)) if frame else ""
        _report_hang(self._last_words(), where, self._is_final)
        ends_itself(1)
        os._exit(1)


@contextlib.contextmanager
def within(
    deadline_s: float,
    progress: Callable[[], Any],
    describe_hang: Callable[[], str],
    setting: str = "",
    *,
    is_left_when_asked: bool = True,
) -> Iterator[None]:
    """Runs the block under a `Watchdog`."""
    watchdog = Watchdog(deadline_s, progress, describe_hang, setting, is_left_when_asked=is_left_when_asked)
    watchdog.watching = True
    try:
        yield
    finally:
        watchdog.close()


@contextlib.contextmanager
def time_to_close(name: str) -> Iterator[None]:
    """Runs the block, which closes environments, and leaves it after five seconds as if it had ended.

    So an environment that hangs when it is closed costs a run neither its last checkpoint nor its end on request.

    Args:
        name: of what is closed, "environment CartPole-v1".
    """
    is_main = threading.current_thread() is threading.main_thread()
    deadline_s = _CLOSE_S if is_main else _CLOSE_ELSEWHERE_S
    # After a request to stop, too, it has its five seconds: the last checkpoint is still to be written.
    hangs = within(deadline_s, lambda: 0, lambda: f"{name} hangs when it is closed", is_left_when_asked=False)
    with contextlib.suppress(TimeoutError), hangs:
        yield
