"""A deadline for code in this process: a thread detects hangs for which another process would be killed."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
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
_GRACE = 20  # checks until the process ends, if TimeoutError did not stop the code


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

    Else TimeoutError is raised in that thread, whether it sleeps or loops. If the code still continues (it caught the
    error, or is deep in a native library), the watchdog ends the process with `describe_hang` and a traceback; it also
    does so for every hang in a thread other than the main one, which no signal reaches. Native code that holds the
    interpreter's lock cannot be detected from inside this process: this needs worker processes.

    Args:
        progress: returns a value that stays equal if and only if nothing has happened.
        describe_hang: returns one sentence for standard error, or for the function set by `report_hang_to`.
        setting: the setting of the deadline, appended to it in a message.
        is_final: whether the same would happen again in a new process.
    """

    def __init__(
        self,
        deadline_s: float,
        progress: Callable[[], Any],
        describe_hang: Callable[[], str],
        setting: str = "",
        is_final: bool = True,
    ) -> None:
        self.watching, self._is_final = False, is_final
        self._deadline_s, self._progress, self._last_words = deadline_s, progress, describe_hang
        self._overdue = f"no answer within {deadline_s:g} s{setting}, it counts as hung"
        self._watched = threading.get_ident()
        self._by_signal = threading.current_thread() is threading.main_thread()
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
            raise TimeoutError(self._overdue)

    def _watch(self) -> None:
        interval = min(_INTERVAL, self._deadline_s / 4)
        # Counts checks instead of time: a process that was stopped for an hour is not overdue.
        patience = math.ceil(self._deadline_s / interval)
        before, looks = None, 0
        while not self._closed.wait(interval):
            now = self._progress() if self.watching else None
            looks = looks + 1 if now is not None and now == before else 0
            before = now
            if looks == patience and self._by_signal:
                signal.pthread_kill(self._watched, _SIGNAL)
            elif looks >= patience + (_GRACE if self._by_signal else 0):
                self._give_up()

    def _give_up(self) -> None:
        frame = sys._current_frames().get(self._watched)
        where = "".join(traceback.format_stack(frame)) if frame else ""
        _report_hang(self._last_words(), where, self._is_final)
        ends_itself(1)
        os._exit(1)


@contextlib.contextmanager
def within(
    deadline_s: float, progress: Callable[[], Any], describe_hang: Callable[[], str], setting: str = ""
) -> Iterator[None]:
    """Runs the block under a `Watchdog`."""
    watchdog = Watchdog(deadline_s, progress, describe_hang, setting)
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
    hangs = within(deadline_s, lambda: 0, lambda: f"{name} hangs when it is closed")
    with contextlib.suppress(TimeoutError), hangs:
        yield
