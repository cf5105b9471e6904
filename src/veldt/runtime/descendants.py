"""Ends the processes that the processes below this one have left: an environment may start some and not end them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time

_PR_SET_CHILD_SUBREAPER = 36
_KILL_S = 5.0  # until nothing is left


def adopt_orphans() -> None:
    """Makes this process the parent of every process below it whose own parent ends, where the system can."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(grace_s: float = 0.0) -> None:
    """Waits `grace_s` seconds for all processes below this one to end, and kills those that are left.

    Also those that are being started, or were stopped by a signal. No other thread may wait for a child meanwhile.
    """
    begun = time.monotonic()
    while has_children() and (passed := time.monotonic() - begun) < grace_s + _KILL_S:
        if passed >= grace_s:
            kill_below(os.getpid())
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def kill_below(pid: int) -> None:
    """Kills the processes that are now below process `pid`."""
    import psutil  # the processes that call this import nothing that they may not need

    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()


def has_children() -> bool:
    """Whether this process has children, also ones that a program has started which was here before (`exec`)."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
