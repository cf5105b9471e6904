"""Child processes that never outlive their parent, answer within a deadline, and report what killed them."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Semaphore
from typing import Any

import numpy as np

from veldt.runtime.endings import ENDINGS, end_with, how_it_ended, own_forks
from veldt.runtime.fork_server import server
from veldt.runtime.fork_server.server import end_servers, forkserver
from veldt.runtime.process_state import StopClock, stopped_too_long
from veldt.runtime.stack_dump import stack_of

# Preloaded by servers that start roles. (A string, because this package must not import the packages above it.)
PRELOAD_ROLES = ["veldt.systems.driver.preload"]
# Environment variable for learners that connect by Gloo on this machine: they listen on the loopback device only.
GLOO_ON_LOOPBACK = ("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
_PR_SET_NAME = 15
_LIVENESS_INTERVAL = 0.25  # seconds between checks that the awaited peer is alive
_EXIT_S = 5.0  # seconds from the closing of a child's pipe until its end must be known
_CODE_S = 1.0  # seconds from a child's end until its exit code must be known
_EXIT_CODE_LOST = 255  # what `multiprocessing` takes for the code where the fork server is gone

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def leave_signals_to_parent() -> None:
    """Called in a child: signals to end have no effect here; programs that an environment starts get the defaults."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in ENDINGS[1:]:
        signal.signal(number, lambda *_: None)  # an ignored signal would be inherited by those programs
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)


def _run_until_parent_ends(parent_pipe: Connection, target: Callable[..., None], *args: Any) -> None:
    """Runs `target` in a child that ends with its parent.

    The other end of `parent_pipe` closes when the parent dies, even by SIGKILL (see `end_with`). `multiprocessing`'s
    own pipe to its children cannot be used: a parent that loses its core while it writes the last of the child's
    arguments would kill the child.
    """
    end_with(parent_pipe.fileno())
    own_forks()
    name_process(multiprocessing.current_process().name)
    # `multiprocessing` forbids children to daemon processes. veldt's end with their parent, however it ends, and an
    # environment with processes of its own must not depend on where it is.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    _reseed()
    target(*args)


def _reseed() -> None:
    """Seeds the global generators that this process has inherited, which veldt itself does not use.

    Environments and networks of the user may: in all processes they would draw the same numbers. The seeds are the
    system's, as are Python's for `random` after a fork, and those with which NumPy and torch begin.
    """
    np.random.seed()  # noqa: NPY002
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.seed()


def name_process(name: str) -> None:
    """Sets the name of this process and thread in `top` and `ps`, if the system can: the first 15 characters."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_NAME, name.encode())
    # The name of the process is that of its main thread.
    if threading.current_thread() is not threading.main_thread():
        with contextlib.suppress(OSError), open("/proc/self/comm", "wb") as file:
            file.write(name.encode())


def unlink_names(semaphores: Iterable[Semaphore]) -> None:
    """Removes the names of semaphores that every process has opened.

    `multiprocessing` removes them when this process ends, or its resource tracker does when this one is killed. Without
    names there is nothing to remove, whatever is killed.
    """
    names = {semaphore._semlock.name for semaphore in semaphores}  # type: ignore[attr-defined]
    for finalizer in list(util._finalizer_registry.values()):  # type: ignore[attr-defined]
        if finalizer._args and finalizer._args[0] in names:
            finalizer()


def acquire(
    semaphore: Semaphore, deadline_s: float, spin_s: float = 0.0, alive: Callable[[], bool] = lambda: True
) -> bool:
    """Waits for `semaphore`: spins for `spin_s` seconds, then sleeps. False after the deadline or if `alive()` is
    false.

    The spin yields the core at every turn, so that on a full machine it does not delay the worker; it saves the sleep
    and wake-up (20 to 60 µs) when the answer is only microseconds away.
    """
    if semaphore.acquire(False):
        return True
    if spin_s > 0:
        end = time.perf_counter() + spin_s
        while time.perf_counter() < end:
            if semaphore.acquire(False):
                return True
            os.sched_yield()
    # Counts turns instead of time: a process that was stopped for an hour (SIGSTOP, a suspended laptop) must not find
    # its peers, which were stopped as well, overdue.
    for _ in range(max(1, math.ceil(deadline_s / _LIVENESS_INTERVAL))):
        if semaphore.acquire(True, _LIVENESS_INTERVAL):
            return True
        if not alive():
            return semaphore.acquire(False)
    return False


# What processes forked from this one close: they may outlive it, and its children would then not notice its end.
_parent_ends: weakref.WeakSet[Connection] = weakref.WeakSet()


def _close_parent_ends() -> None:
    for end in _parent_ends:
        end.close()


os.register_at_fork(after_in_child=_close_parent_ends)
_ends = threading.Event()  # this program, which may train in a thread that is a daemon


def _end_with_program() -> None:
    _ends.set()
    _close_parent_ends()


# Called before the function that `multiprocessing`, imported above, has registered. That would wait for them for ever:
# SIGTERM, by which it asks them to end, has no effect on them.
atexit.register(_end_with_program)


class Child:
    """One child process with a duplex pipe for rare messages (bytes only).

    It does not outlive the parent process, nor this object, but the fork server that started it.
    """

    def __init__(
        self, context: ForkServerContext, name: str, target: Callable[..., None], *args: Any
    ) -> None:
        self.name = name
        if _ends.is_set() and threading.current_thread() is not threading.main_thread():
            raise SystemExit  # of a thread: in place of those that were ended with the program it would start others
        # Before `pipe`: of an object that nothing refers to, the first attribute closes first, and the process must be
        # ended before it reads the end of its pipe.
        parent_pipe, self._parent_end = context.Pipe(duplex=False)
        self.pipe, theirs = context.Pipe()
        _parent_ends.add(self._parent_end)  # before the start, during which another thread may fork
        self._process = context.Process(
            target=_run_until_parent_ends, args=(parent_pipe, target, theirs, *args), name=name, daemon=True
        )
        self._state = server.start(self._process)
        self._server, self._clock = server.server_pid(), StopClock()
        self.is_closed = False  # whether `receive` has found that the process has closed its end of the pipe
        theirs.close()
        parent_pipe.close()

    def stack(self, descriptor: int) -> str:
        """Returns the process's Python stack; see `stack_of`."""
        return stack_of(self._state.pid, descriptor)

    def alive(self) -> bool:
        # Not `multiprocessing`'s own answer, for which a process has ended when its fork server has.
        return self._state.is_alive

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped the process, and no other has continued it."""
        return self._state.is_stopped

    @property
    def is_lost(self) -> bool:
        """Whether the process has ended, or was stopped for too long; to be asked often while it has work."""
        return not self.alive() or self._clock.is_over(self.is_stopped)

    def cause_of_death(self, ran: str = "") -> str:
        """Describes how the process ended, or that it is stopped, as the end of a sentence; `ran` as in
        `how_it_ended`."""
        if self.alive():
            return stopped_too_long() if self.is_stopped else "is still running"
        code = self._exit_code()
        return (
            f"ended{ran}, how is not known, because its fork server has ended, too"
            if code is None
            else how_it_ended(code, ran)
        )

    def was_killed(self) -> bool:
        """Whether a signal from outside ended or stopped it: not one that the processor raises for a defect in its own
        code."""
        if self.alive():
            return self.is_stopped
        code = self._exit_code()
        return code is None or -code in _FROM_OUTSIDE

    def receive(self, deadline_s: float) -> bytes | None:
        """Returns the next message; None after the deadline or if the child is lost (or closed its pipe 5 s ago)."""
        end = time.monotonic() + deadline_s
        try:
            while (remaining := end - time.monotonic()) > 0:
                if self.pipe.poll(min(remaining, _LIVENESS_INTERVAL)):
                    return self.pipe.recv_bytes()
                if self.is_lost and not self.pipe.poll(0):
                    return None
        except (EOFError, OSError):
            # The pipe closes before the process is gone: without the wait, the child would seem alive and silent.
            self._await_end(_EXIT_S)
            self.is_closed = True
        return None

    def end(self, deadline_s: float) -> None:
        """Waits for the process to end by itself, and kills it after the deadline."""
        self._await_end(deadline_s)
        self.kill()

    def kill(self) -> None:
        """Kills the process and waits until it is gone."""
        if self.alive():  # else its process id may belong to another process
            os.kill(self._state.pid, signal.SIGKILL)
        self._await_end(_EXIT_S)
        self._exit_code()
        self.pipe.close()
        self._parent_end.close()

    def _await_end(self, deadline_s: float) -> None:
        end = time.monotonic() + deadline_s
        while self.alive() and (remaining := end - time.monotonic()) > 0:
            self._process.join(min(remaining, _LIVENESS_INTERVAL))
            # Its fork server has ended, and reports nothing: `join` returned at once.
            if self._process.exitcode is not None and self.alive():
                time.sleep(0.002)

    def _exit_code(self) -> int | None:
        """Returns the exit code of the process, which has ended; None if it will never be known."""
        server.wake_server()
        self._process.join(_CODE_S)
        code = self._process.exitcode
        has_reporter = self._server is not None and self._server == server.server_pid()
        return code if code != _EXIT_CODE_LOST or has_reporter else None


__all__ = [
    "Child",
    "acquire",
    "end_servers",
    "forkserver",
    "leave_signals_to_parent",
    "name_process",
    "unlink_names",
]
