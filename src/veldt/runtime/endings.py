"""How a process ended, in words; and how one ends with another. Imports next to nothing."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading


def how_it_ended(code: int) -> str:
    """What the exit code of a process says, as the end of a sentence; -N stands for the signal N."""
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
    why = " (by hand, or by the system for want of memory)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{why}"


def end_with(life: int) -> None:
    """From now on this process is killed when the other end of the pipe `life` closes; nothing is ever sent on it.

    On Linux the kernel does that (it signals whatever happens on the pipe), so that an environment stuck in native code
    holding the interpreter lock dies too.
    """
    closes = select.poll()
    closes.register(life, select.POLLIN)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
        if closes.poll(0):  # it closed before the kernel knew whom to tell
            os._exit(1)
    else:

        def watch() -> None:
            closes.poll()
            os._exit(1)

        threading.Thread(target=watch, daemon=True, name="exit-with-parent").start()
