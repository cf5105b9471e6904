"""Where a child process is stuck: its Python stack, asked for from outside, even while it is in native code."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time

_SIGNAL = signal.SIGVTALRM  # unused otherwise in a child
_DEADLINE = 1.0  # seconds


def enable_stack_dump() -> int:
    """Called in a child: from now on a signal makes it write its stack. Returns what `stack_of` wants to know."""
    if not hasattr(os, "memfd_create"):
        return -1
    memory = os.memfd_create("stack")
    faulthandler.register(_SIGNAL, file=memory, all_threads=False)
    return memory


def stack_of(pid: int, memory: int) -> str:
    """The stack of a child, the innermost call first; empty where it cannot be had."""
    if memory < 0:
        return ""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/fd/{memory}") as file:
            os.kill(pid, _SIGNAL)
            end, text = time.monotonic() + _DEADLINE, ""
            while not text.endswith("\n") and time.monotonic() < end:
                time.sleep(0.01)
                file.seek(0)
                text = file.read()
        return text
    return ""
