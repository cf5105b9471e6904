"""Dumps a child process's Python stack on request, even while the child is in native code."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time

_SIGNAL = signal.SIGVTALRM  # unused otherwise in a child
_DEADLINE = 1.0  # seconds


def enable_stack_dump() -> int:
    """Called in a child: makes a signal write the child's stack. Returns the descriptor that `stack_of` needs."""
    if not hasattr(os, "memfd_create"):
        return -1
    descriptor = os.memfd_create("stack")
    faulthandler.register(_SIGNAL, file=descriptor, all_threads=False)
    return descriptor


def stack_of(pid: int, descriptor: int) -> str:
    """Returns the stack of a child, the innermost call first; "" if it is not available."""
    if descriptor < 0:
        return ""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/fd/{descriptor}") as file:
            os.kill(pid, _SIGNAL)
            end, text = time.monotonic() + _DEADLINE, ""
            while not text.endswith("\n") and time.monotonic() < end:
                time.sleep(0.01)
                file.seek(0)
                text = file.read()
        return text
    return ""
