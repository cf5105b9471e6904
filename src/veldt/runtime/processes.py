"""Child processes that never outlive their parent, answer within a deadline, and report what killed them."""

from __future__ import annotations

import contextlib
import ctypes
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import forkserver as forkserver_module
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Semaphore
from typing import Any

from veldt.runtime.endings import end_with, how_it_ended
from veldt.runtime.safe_path import safe_path
from veldt.runtime.server_folder import folder_known
from veldt.runtime.stack_dump import stack_of

# Preloaded by servers that start roles. (A string, because this package must not import the packages above it.)
PRELOAD_ROLES = ["veldt.systems.driver.preload"]
# Environment variable for learners that connect by Gloo on this machine: they listen on the loopback device only.
GLOO_ON_LOOPBACK = ("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
_PR_SET_NAME = 15
_LIVENESS_INTERVAL = 0.25  # seconds between checks that the awaited peer is alive
_EXIT_S = 5.0  # seconds from the closing of a child's pipe until its end must be known

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

# Signals that a closing terminal, `timeout` or a job scheduler sends to all processes of a run at once.
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def forkserver(preload: list[str]) -> ForkServerContext:
    """Returns the context whose fork server has imported `preload` (starts a process in about 10 ms)."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*preload, "veldt.runtime.server_exit"])
    for start in (resource_tracker.ensure_running, forkserver_module.ensure_running):
        # The servers inherit the mask: signals to end are for this process, which needs the servers for its last
        # checkpoint.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
        try:
            with safe_path(), folder_known(util.get_temp_dir()):
                start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def end_servers() -> None:
    """Ends the fork server and the resource tracker that this process has started, and waits until they are gone.

    For the end of a command, when multiprocessing has removed what it has named: without this the two would find out
    by themselves, a server that still imports only seconds later. Does nothing in a process that has not started them.
    """
    server: Any = forkserver_module._forkserver
    tracker: Any = resource_tracker._resource_tracker
    if server._forkserver_pid is not None and _is_child(server._forkserver_pid):
        os.close(server._forkserver_alive_fd)
        os.kill(server._forkserver_pid, signal.SIGKILL)  # it has nothing to clean up
        _await_end(server._forkserver_pid)
        server._forkserver_pid = server._forkserver_alive_fd = server._forkserver_address = None
    if tracker._pid is not None and _is_child(tracker._pid):
        os.close(tracker._fd)  # its signal to end
        _await_end(tracker._pid)
        tracker._pid = tracker._fd = None


def _is_child(pid: int) -> bool:
    """Whether this process has a child `pid` that is still running; one that has ended is collected."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _await_end(pid: int) -> None:
    """Waits for the end of a child; not longer than `_EXIT_S`, since a process that is stopped or waits for a disk may
    hold it up."""
    deadline = time.monotonic() + _EXIT_S
    while _is_child(pid) and time.monotonic() < deadline:
        time.sleep(0.002)


def leave_signals_to_parent() -> None:
    """Called in a child: signals to end have no effect here; programs that an environment starts get the defaults."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in _ENDINGS[1:]:
        signal.signal(number, lambda *_: None)  # an ignored signal would be inherited by those programs
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)


@contextlib.contextmanager
def main_module_hidden() -> Iterator[None]:
    """Starts children without running the user's script again in each of them.

    `multiprocessing` imports the parent's main module into every child, so that a script without an
    `if __name__ == "__main__"` guard would start itself endlessly. Instead, veldt's children receive what they need
    from the user's script by cloudpickle.
    """
    main = sys.modules["__main__"]
    saved: dict[str, Any] = {}
    for name in ("__spec__", "__file__"):
        if name in main.__dict__:
            saved[name] = main.__dict__.pop(name)
    main.__spec__ = None
    try:
        yield
    finally:
        del main.__spec__
        main.__dict__.update(saved)


def _run_until_parent_ends(parent_pipe: Connection, target: Callable[..., None], *args: Any) -> None:
    """Runs `target` in a child that ends with its parent.

    The other end of `parent_pipe` closes when the parent dies, even by SIGKILL (see `end_with`). `multiprocessing`'s
    own pipe to its children cannot be used: a parent that loses its core while it writes the last of the child's
    arguments would kill the child.
    """
    end_with(parent_pipe.fileno())
    target(*args)


def may_have_children() -> None:
    """Called in a child that starts processes of its own; they end with it, however it ends."""
    # `multiprocessing` forbids this to daemon processes, because their children would be left behind.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


def name_process(name: str) -> None:
    """Sets the name of this process in `top` and `ps`, if the system supports it: the first 15 letters."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_NAME, name.encode())


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


class Child:
    """One child process with a duplex pipe for rare messages (bytes only).

    It does not outlive the parent process, nor this object.
    """

    def __init__(
        self, context: ForkServerContext, name: str, target: Callable[..., None], *args: Any
    ) -> None:
        self.name = name
        self.pipe, theirs = context.Pipe()
        parent_pipe, self._parent_end = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_run_until_parent_ends, args=(parent_pipe, target, theirs, *args), name=name, daemon=True
        )
        with main_module_hidden():
            self._process.start()
        theirs.close()
        parent_pipe.close()

    def stack(self, descriptor: int) -> str:
        """Returns the process's Python stack; see `stack_of`."""
        return stack_of(self._process.pid, descriptor) if self._process.pid else ""

    def alive(self) -> bool:
        return self._process.is_alive()

    def cause_of_death(self) -> str:
        """Describes how the process ended, as the end of a sentence."""
        self._process.join(1.0)
        code = self._process.exitcode
        if code is None:
            return "is still running"
        return how_it_ended(code)

    def was_killed(self) -> bool:
        """Whether a signal from outside ended it: not one that the processor raises for a defect in its own code."""
        code = self._process.exitcode
        return code is None or -code in _FROM_OUTSIDE

    def receive(self, deadline_s: float) -> bytes | None:
        """Returns the next message; None after the deadline or if the child is gone (or closed its pipe 5 s ago)."""
        end = time.monotonic() + deadline_s
        try:
            while (remaining := end - time.monotonic()) > 0:
                if self.pipe.poll(min(remaining, _LIVENESS_INTERVAL)):
                    return self.pipe.recv_bytes()
                if not self.alive() and not self.pipe.poll(0):
                    return None
        except (EOFError, OSError):
            # The pipe closes before the process is gone: without the wait, the child would seem alive and silent.
            self._process.join(_EXIT_S)
        return None

    def end(self, deadline_s: float) -> None:
        """Waits for the process to end by itself, and kills it after the deadline."""
        self._process.join(deadline_s)
        self.kill()

    def kill(self) -> None:
        """Kills the process and waits until it is gone."""
        if self.alive():  # else its process id may belong to another process
            self._process.kill()
        self._process.join(5.0)
        self.pipe.close()
        self._parent_end.close()


__all__ = [
    "Child",
    "acquire",
    "end_servers",
    "forkserver",
    "leave_signals_to_parent",
    "main_module_hidden",
    "may_have_children",
    "name_process",
    "unlink_names",
]
