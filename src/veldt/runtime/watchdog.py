"""A deadline for code that runs in this process: a thread looks out for what another process would be ended for."""

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

# The least used of the signals that have no meaning of their own: schedulers send the user's signals as warnings, and
# environments set alarms of their own.
_SIGNAL = signal.SIGVTALRM
_INTERVAL = 0.25  # seconds between looks
_GRACE = 20  # looks until code that TimeoutError did not end is given up


def _to_standard_error(sentence: str, where: str, is_final: bool) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"\n{where}veldt: {sentence}\n")
        sys.stderr.flush()


_say_last: Callable[[str, str, bool], None] = _to_standard_error


def last_words_to(hear: Callable[[str, str, bool], None]) -> None:
    """Of this process: a sentence, a traceback and whether it is final, just before a watchdog ends it."""
    global _say_last
    _say_last = hear


class Watchdog:
    """While `watching` is set, the thread that made this has to change `progress` every `deadline_s` seconds.

    Else TimeoutError is raised in it, wherever it is, sleeping or looping. Code that goes on all the same (it caught
    the error, or is deep in a native library) ends the process, with `last_words` and a traceback; so does every hang
    in a thread that is not the main one, which no signal reaches. Native code that keeps the interpreter's lock cannot
    be seen from inside this process at all: that is what worker processes are for.

    Args:
        progress: anything that compares equal if and only if nothing has happened.
        last_words: one sentence for standard error, or for whom `last_words_to` names.
        setting: what set the deadline, as it follows it in a message.
        is_final: whether the same would happen to another process in its place.
    """

    def __init__(
        self,
        deadline_s: float,
        progress: Callable[[], Any],
        last_words: Callable[[], str],
        setting: str = "",
        is_final: bool = True,
    ) -> None:
        self.watching, self._is_final = False, is_final
        self._deadline_s, self._progress, self._last_words = deadline_s, progress, last_words
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
        # Counted in looks and not by the clock: a process that was stopped for an hour is not overdue.
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
        _say_last(self._last_words(), where, self._is_final)
        ends_itself(1)
        os._exit(1)


@contextlib.contextmanager
def within(
    deadline_s: float, progress: Callable[[], Any], last_words: str, setting: str = ""
) -> Iterator[None]:
    """Runs the block under a `Watchdog`."""
    watchdog = Watchdog(deadline_s, progress, lambda: last_words, setting)
    watchdog.watching = True
    try:
        yield
    finally:
        watchdog.close()
