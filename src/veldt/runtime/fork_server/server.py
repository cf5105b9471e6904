"""The server from which this process forks its children, and its replacement when it dies or is stopped.

Children outlive it (see `processes.Child`): they only need it for their start, and for the exit code.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import forkserver as forkserver_module
from multiprocessing import resource_tracker, util
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from veldt.errors import VeldtError
from veldt.runtime.descendants import kill_below
from veldt.runtime.endings import ENDINGS, NO_MORE_CODE, NO_MORE_PROCESSES, how_it_ended
from veldt.runtime.fork_server.safe_path import safe_path
from veldt.runtime.fork_server.socket_folder import folder_known
from veldt.runtime.orphans import leave_to_parent, mark_own, remove_orphans
from veldt.runtime.process_state import ProcessState, StopClock, stopped_too_long

_EXIT_S = 5.0  # seconds within which a server that must end does so
_DEATH_S = 1.0  # seconds until a server whose pipe has closed is known to have ended
_POLL_S = 0.25
_NO_MORE = "could not fork"
_MAX_SERVERS = 3  # servers that may die in a row before they have started one process

_server: Any = forkserver_module._forkserver
_tracker: Any = resource_tracker._resource_tracker


class _Watch:
    """What this process knows of its servers besides `multiprocessing`."""

    def __init__(self) -> None:
        self.state: ProcessState | None = None  # of the present server
        self.clock = StopClock()
        self.stopped = False  # whether this process has killed it because it was stopped
        self.losses: list[str] = []  # not reported yet
        self.polled_at = 0.0
        # Two threads of a program may train at once, and a start changes the environment and the main module.
        self.starting = threading.Lock()


_watch = _Watch()


def forkserver(preload: list[str]) -> ForkServerContext:
    """Returns the context whose fork server has imported `preload` (starts a process in about 10 ms).

    The first call in a process removes what runs that were killed on this machine have left.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*preload, "veldt.runtime.fork_server.at_exit"])
    with _watch.starting:
        if server_pid() is None:
            mark_own()
            remove_orphans()
        _ensure_servers()
    return context


def start(process: ForkServerProcess) -> ProcessState:
    """Starts `process`, from a new server where one dies or is stopped meanwhile. Returns its state.

    Raises:
        VeldtError: no server could start it.
    """
    for left in reversed(range(_MAX_SERVERS)):
        try:
            with _watch.starting, _started_by_veldt(), _killed_if_stopped():
                process.start()
            assert process.pid is not None
            return ProcessState(process.pid)
        except (EOFError, OSError) as error:
            how = _collect(_DEATH_S)
            if how is None:  # the server lives: something else has failed
                raise
            if how == _NO_MORE:
                raise VeldtError(f"cannot start the {process.name}: {NO_MORE_PROCESSES}") from error
            if left == 0 or how.startswith("exited"):  # as it would again
                again = "" if left else f", as {_MAX_SERVERS - 1} others before it"
                raise VeldtError(
                    f"the fork server, which starts the processes of this run, {how} before it had started the "
                    f"{process.name}{again}: nothing else in the run has failed, so start or resume it again"
                ) from error
    raise AssertionError("the last attempt raises")


def lost_servers() -> list[str]:
    """Looks at the fork server; one that has been stopped for too long is killed. Returns a sentence for each server
    that was lost since the last call. The next process is started from a new one."""
    now = time.monotonic()
    if now - _watch.polled_at >= _POLL_S:
        _watch.polled_at = now
        _kill_if_stopped()
        _collect(0.0)
    losses, _watch.losses = _watch.losses, []
    return losses


def server_pid() -> int | None:
    """Returns the process id of this process's fork server; None if none is running."""
    _collect(0.0)
    return _pid()


def wake_server() -> None:
    """Continues the fork server if it is stopped, so that it reports how its processes have ended."""
    if _watch.state is not None and _watch.state.is_stopped and _pid() == _watch.state.pid:
        os.kill(_watch.state.pid, signal.SIGCONT)


def end_servers() -> None:
    """Ends the fork server and the resource tracker that this process has started, and waits until they are gone.

    For the end of a command, when multiprocessing has removed what it has named: without this the two would find out
    by themselves, a server that still imports only seconds later. Does nothing in a process that has not started them.
    """
    if _server._forkserver_pid is not None and _is_child(_server._forkserver_pid):
        kill_below(_server._forkserver_pid)
        os.kill(_server._forkserver_pid, signal.SIGKILL)  # it has nothing else to clean up
        _await_end(_server._forkserver_pid)
        _forget()
    if _tracker._pid is not None and _is_child(_tracker._pid):
        os.close(_tracker._fd)  # its signal to end
        _await_end(_tracker._pid)
        _tracker._pid = _tracker._fd = None


def _pid() -> int | None:
    pid: int | None = _server._forkserver_pid
    return pid


def _ensure_servers() -> None:
    """Starts the servers that are not running."""
    _collect(0.0)
    for begin in (resource_tracker.ensure_running, forkserver_module.ensure_running):
        # The servers inherit the mask: signals to end are for this process, which needs the servers for its last
        # checkpoint; by SIGCHLD, which user code may have blocked here, they learn of the ends of their processes.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        try:
            with safe_path(), folder_known(util.get_temp_dir()):
                begin()
        except BlockingIOError as error:
            raise VeldtError(
                f"cannot start the server of this run's processes: {NO_MORE_PROCESSES}"
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    pid = _pid()
    if pid is not None and (_watch.state is None or _watch.state.pid != pid):
        _watch.state, _watch.clock, _watch.stopped = ProcessState(pid), StopClock(), False


def _collect(patience_s: float) -> str | None:
    """Returns how the fork server has ended, as the end of a sentence, and records its loss; None while it runs."""
    end = time.monotonic() + patience_s
    with _server._lock:
        pid = _pid()
        if pid is None:
            return None
        while (how := _end_of(pid)) is None:
            if time.monotonic() >= end:
                return None
            time.sleep(0.002)
        _forget()
    if _watch.stopped:
        how = stopped_too_long()
    _watch.losses.append(
        f"the fork server, which starts the processes of this run, {how}: the run goes on, and a new server starts "
        "the next process"
    )
    return how


def _end_of(pid: int) -> str | None:
    """Returns how this child has ended, as the end of a sentence; None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # the program ignores SIGCHLD, or waits for all of its children
        return "ended, how is not known,"
    if not ended:
        return None
    code = os.waitstatus_to_exitcode(status)
    return _NO_MORE if code == NO_MORE_CODE else how_it_ended(code)


def _forget() -> None:
    """Lets `multiprocessing` know that its server has ended."""
    os.close(_server._forkserver_alive_fd)
    _server._forkserver_pid = _server._forkserver_alive_fd = _server._forkserver_address = None


def _kill_if_stopped() -> None:
    state = _watch.state
    if state is None or state.pid != _pid() or not _watch.clock.is_over(state.is_stopped):
        return
    _watch.stopped = True
    # No process id of another: this process has not collected its child yet.
    os.kill(state.pid, signal.SIGKILL)


@contextlib.contextmanager
def _killed_if_stopped() -> Iterator[None]:
    """Looks at the server while this thread waits for it."""
    done = threading.Event()

    def poll() -> None:
        while not done.wait(_POLL_S):
            _kill_if_stopped()

    thread = threading.Thread(target=poll, daemon=True, name="fork server watch")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def _started_by_veldt() -> Iterator[None]:
    _ensure_servers()
    with _main_module_hidden(), _parent_allowed(), _only_our_servers():
        yield


@contextlib.contextmanager
def _only_our_servers() -> Iterator[None]:
    """Makes `multiprocessing`, which replaces a dead server on its own, do so as `_ensure_servers` does."""
    _server.ensure_running = _ensure_servers
    try:
        yield
    finally:
        del _server.ensure_running


@contextlib.contextmanager
def _parent_allowed() -> Iterator[None]:
    """Lets a worker of `multiprocessing.Pool`, which is a daemonic process, have children: veldt's end with it."""
    config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    daemon = config.pop("daemon", None)
    try:
        yield
    finally:
        if daemon is not None:
            config["daemon"] = daemon


@contextlib.contextmanager
def _main_module_hidden() -> Iterator[None]:
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


def _leave_to_parent() -> None:
    """Called in a process that is forked from one with a server, which remains the server of that one alone."""
    if _pid() is not None:
        _forget()
    _watch.__init__()  # type: ignore[misc]
    leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


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
