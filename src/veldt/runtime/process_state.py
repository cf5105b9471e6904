"""Whether a process of this machine is alive, and whether a signal has stopped it (SIGSTOP, Ctrl-Z)."""

from __future__ import annotations

import contextlib
import os
import signal
import time

# Seconds after which a stopped process counts as lost: less than the 10 in which a run ends on request. No work takes
# that time from it: however long a step or a compilation is, its process is never in this state.
STOPPED_S = 8.0
_LONGEST_LOOK_S = 1.0  # what one look may add, since the process that looks may have been stopped itself
_ENDED = ("", "Z", "X")  # letters of processes that have ended
_HAS_PROC = os.path.exists("/proc/self/stat")


class ProcessState:
    """The state of the process that has the number `pid` now, not of one that gets the number later."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        now = _state_of(pid)
        self._began = now[1] if now else None

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended; its parent may not know yet that it has."""
        return self._letter not in _ENDED

    @property
    def is_stopped(self) -> bool:
        return self._letter == "T"

    @property
    def _letter(self) -> str:
        """The letter that the kernel has for it; "" for a process that is gone."""
        now = _state_of(self.pid)
        return now[0] if now is not None and now[1] == self._began else ""


def start_of(pid: int) -> int:
    """Returns when this process began, in a unit of the system; 0 if it is gone."""
    now = _state_of(pid)
    return int(now[1]) if now else 0


def is_running(pid: int, start: int) -> bool:
    """Whether the process that began then, by `start_of`, has not ended."""
    now = _state_of(pid)
    return now is not None and now[0] not in _ENDED and int(now[1]) == start


def is_stopped(pid: int, start: int) -> bool:
    """Whether a signal has stopped the process that began then, by `start_of`."""
    now = _state_of(pid)
    return now is not None and now[0] == "T" and int(now[1]) == start


class StopClock:
    """How long a process has been stopped, as far as the process that looks at it was running itself.

    So nothing is overdue after a pause of both (Ctrl-Z and `fg`, a suspended laptop).
    """

    def __init__(self) -> None:
        self._looked_at, self._seconds = time.monotonic(), 0.0

    def is_over(self, is_stopped: bool) -> bool:
        """Called often with the state of the process. Returns whether it has been stopped for more than `STOPPED_S`."""
        now = time.monotonic()
        passed, self._looked_at = min(now - self._looked_at, _LONGEST_LOOK_S), now
        self._seconds = self._seconds + passed if is_stopped else 0.0
        return self._seconds > STOPPED_S


def stopped_too_long() -> str:
    """Describes what has happened to a process whose `StopClock` is over, as the end of a sentence."""
    return f"was stopped for {STOPPED_S:g} s (SIGSTOP, by hand or by another program)"


def continue_descendants() -> None:
    """Continues every process below this one that a signal has stopped."""
    import psutil  # only a run that is asked to stop needs it

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_STOPPED:
                process.send_signal(signal.SIGCONT)


def _state_of(pid: int) -> tuple[str, float] | None:
    """Returns a process's state, as Linux abbreviates it, and when it began; None if there is no such process."""
    if not _HAS_PROC:
        return _state_by_psutil(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name, in brackets, may contain anything.
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), float(fields[19])


def _state_by_psutil(pid: int) -> tuple[str, float] | None:
    import psutil

    letters = {psutil.STATUS_ZOMBIE: "Z", psutil.STATUS_DEAD: "X", psutil.STATUS_STOPPED: "T"}
    try:
        process = psutil.Process(pid)
        return letters.get(process.status(), "R"), process.create_time()
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:  # a zombie on some systems, or not allowed
        return "R", 0.0
