"""Ends the processes that the processes below this one have left: an environment may start some and not end them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_KILL_S = 5.0  # until nothing is left
_LISTS = 3  # of processes, without one, show that none is left


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


def end_children(grace_s: float) -> None:
    """Waits `grace_s` seconds for the processes that user code has started here by `multiprocessing`, and kills those
    that are left. Called at the end of this process, which would wait for ever for those that are no daemons.
    """
    if (multiprocessing := sys.modules.get("multiprocessing")) is None:
        return
    end = time.monotonic() + grace_s
    children = [child for child in multiprocessing.active_children() if not child.daemon]
    for child in children:
        child.join(max(0.0, end - time.monotonic()))
    for child in children:
        if child.exitcode is None:
            child.kill()


def kill_below(pid: int) -> bool:
    """Kills the processes that are now below process `pid`. Returns whether there were any."""
    import psutil  # the processes that call this import nothing that they may not need

    were_there = False
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    were_there = True
                    process.kill()
    return were_there


def end_below(pid: int) -> None:
    """Kills the processes below process `pid` until none is left, also those that are being started meanwhile."""
    end, none_found = time.monotonic() + _KILL_S, 0
    # One list may miss a process whose parent ends while the list is made.
    while none_found < _LISTS and time.monotonic() < end:
        none_found = 0 if kill_below(pid) else none_found + 1
        time.sleep(0.01)


def collect_adopted(own: int) -> None:
    """Collects the children of this process that have ended, except for `own`: each keeps its process id until then."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != own:
            os.waitpid(ended.si_pid, os.WNOHANG)


def has_children() -> bool:
    """Whether this process has children, including those of a program that this one has replaced (`exec`)."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
