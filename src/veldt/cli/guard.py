"""The command `veldt`, in two processes: a child does all the work; its parent waits and reports what killed it.

An environment in the training process may end that process, in Python (`os._exit`) or in native code, without a message
and even with exit code 0. So the child records when it ends by itself (`runtime/activity`); any other end is a failure.

This file is imported before anything else, so that the parent stays small; and it forks while there is one thread.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import math
import mmap
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

from veldt.runtime import activity
from veldt.runtime.descendants import (
    adopt_orphans,
    collect_adopted,
    end_children,
    end_descendants,
    has_children,
)
from veldt.runtime.endings import NO_MORE_PROCESSES, end_with, own_forks
from veldt.standard_streams import fill_closed_streams

# Signals that a user may send to the parent alone, whose process id is the one that the shell shows.
_REQUESTS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
)
_CAUGHT = (*_REQUESTS, signal.SIGCONT, signal.SIGCHLD)
# Within this time, a signal that was sent to both processes has reached the child, too; and signals of a kind are one
# request: `timeout` sends its signal to the command, and then to the command's group, too.
_BOTH_S = 0.3
# For processes of the run whose parent was killed: they end by themselves, and what an environment has started may not.
_GRACE_S = 3.0
_LOOK_MS = 1000  # the child is looked at this often, also without a signal
_INTERRUPTED = 130


def main() -> None:
    """Runs the process's own command line.

    Raises:
        SystemExit: as `veldt.cli.main`; 1 if the child was killed, with one sentence on stderr.
    """
    from veldt.cli import main as work

    # Registered before multiprocessing registers its own clean-up, so that it runs after it.
    atexit.register(_end_servers)
    # Not on other systems: their system libraries (for windows, for example) do not work in a forked process.
    if sys.platform == "linux":
        raise SystemExit(guarded(work, sys.argv[1:]))
    work()


def _end_servers() -> None:
    """Ends what multiprocessing has started for the command, if it was imported: nothing outlives the command."""
    if processes := sys.modules.get("veldt.runtime.processes"):
        processes.end_servers()


def guarded(work: Callable[[], None], arguments: list[str]) -> int:
    """Runs `work` in a child and returns its exit code, in both processes. `arguments` are the command line's."""
    fill_closed_streams()
    # Where a parent has passed on that it ignores this signal, no process could wait for its children.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    memory = mmap.mmap(-1, activity.SIZE)
    received, report_received = os.pipe()
    parent_pipe, parent_end = os.pipe()
    # No signal may be delivered before each process has its own handlers.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _CAUGHT)
    # Not where a shell has started other programs, and was then replaced by this one.
    is_alone = not has_children()
    if is_alone:
        adopt_orphans()
    try:
        child = os.fork()
    except OSError as error:
        _say(
            f"veldt: cannot start a process: {NO_MORE_PROCESSES if error.errno == errno.EAGAIN else error.strerror}"
        )
        return 1
    if child == 0:
        os.close(received)
        os.close(parent_end)
        end_with(parent_pipe)
        own_forks()
        os.set_blocking(report_received, False)
        signal.set_wakeup_fd(report_received, warn_on_full_buffer=False)
        activity.share(memory)
        return _worked(work, arguments, before)
    os.close(report_received)
    os.close(parent_pipe)
    asked, status = _Waiting(child, received).until_ended(before)
    code = _result(memory, asked, os.waitstatus_to_exitcode(status), arguments)
    if is_alone:
        end_descendants(_GRACE_S)
    if os.WIFSIGNALED(status) or activity.chosen_end(memory) is None:
        # The child's fork server removes its folder, but may have had no time to, on a busy machine. Nobody else does
        # where an environment ended the child (os._exit) before there was one.
        from veldt.runtime.orphans import remove_orphans

        remove_orphans()
    return code


def _worked(work: Callable[[], None], arguments: list[str], mask: set[int]) -> int:
    """Does the work in the child, and records that it ends by itself."""
    if "--debug" in arguments:
        import faulthandler

        faulthandler.enable()
    code, own = 1, os.getpid()
    try:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            work()
        except KeyboardInterrupt:  # before `work` has its own handler
            _say("veldt: interrupted")
            code = _INTERRUPTED
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        else:
            code = 0
    finally:
        # The interpreter ends with a search for garbage among all objects, which takes half a second once torch is
        # imported, and several on a busy machine. It leaves out frozen ones; files are flushed and closed as usual.
        # The emulator of Atari games complains of each of its objects that is left.
        if "torch" in sys.modules and "ale_py" not in sys.modules:
            gc.freeze()
        # Registered last, so that it runs before multiprocessing waits for its processes, and after the end of threads,
        # which may need theirs.
        if os.getpid() == own:  # not in what the user's code has forked
            atexit.register(end_children, _GRACE_S)
            _say_what_is_awaited()
        activity.ends_itself(code)
    return code


def _say_what_is_awaited() -> None:
    """Says later, if this process has not ended, what it waits for: Python waits for every thread that is no daemon,
    then for every function that was registered with atexit."""

    def say() -> None:
        waits = "veldt: the work is over, and the command waits for"
        time.sleep(_GRACE_S)
        if names := _awaited_threads():
            _say(
                f"{waits} the thread {names[0]!r}, which an environment, a callback or a logger has begun and not "
                "ended: begin it with daemon=True, or end it in close(); Ctrl-C ends it now"
            )
            return
        time.sleep(_GRACE_S)  # in which `end_children` gives up
        if called := _called_at_exit():
            _say(
                f"{waits} {called}, which an environment, a callback or a library has registered to be called when "
                "the process ends (atexit); Ctrl-C ends it now"
            )

    # At the limit of the user's threads, the process ends without it, and with the code that it has.
    with contextlib.suppress(RuntimeError):
        threading.Thread(target=say, daemon=True, name="what is awaited").start()


def _called_at_exit() -> str:
    """Returns the name and the file of the function that Python calls while this process ends; "" if it calls none."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    # Else the outermost one is the program's own, which has not returned yet.
    if frame is None or frame.f_code.co_name == "<module>":
        return ""
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


def _awaited_threads() -> list[str]:
    """Returns the names of the threads for which Python waits at the end of this process."""
    main = threading.main_thread()
    return [thread.name for thread in threading.enumerate() if not thread.daemon and thread is not main]


class _Waiting:
    """The parent: passes on signals that only it received, and stops and continues with the child.

    Args:
        received: a pipe with the number of each signal that the child itself has received.
    """

    def __init__(self, child: int, received: int) -> None:
        self._child, self._received = child, received
        self._own, own = os.pipe()
        os.set_blocking(self._own, False)
        os.set_blocking(received, False)
        os.set_blocking(own, False)
        for number in _CAUGHT:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, say
                signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(own, warn_on_full_buffer=False)
        # (time, signal): passed on at that time, unless the child has received it itself by then.
        self._due: list[tuple[float, int]] = []
        # (time, signal): received by the child, not yet by this process.
        self._had: list[tuple[float, int]] = []
        self._passed_on: dict[int, float] = {}
        self._requested: dict[int, float] = {}  # when this process received each last

    def until_ended(self, mask: set[int]) -> tuple[set[int], int]:
        """Waits for the child's end; returns the signals that this process has received, and the child's status."""
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        asked: set[int] = set()
        poll = select.poll()
        poll.register(self._own, select.POLLIN)
        poll.register(self._received, select.POLLIN)
        while True:
            # In this order: `_take` empties the pipe that SIGCHLD writes to, so a child that ends between the two calls
            # must be found by the second; one that ends after both leaves its byte in the pipe for `poll`.
            asked.update(self._take())
            ended, status = os.waitpid(self._child, os.WNOHANG | os.WUNTRACED)
            if ended and not os.WIFSTOPPED(status):
                return asked, status
            if ended:
                self._stop_too()
                continue
            collect_adopted(self._child)
            patience = 1000 * max(0.0, self._due[0][0] - time.monotonic()) + 1 if self._due else _LOOK_MS
            for descriptor, event in poll.poll(patience):
                if descriptor == self._received and not event & select.POLLIN:
                    poll.unregister(descriptor)  # the child has closed it, or is about to end

    def _take(self) -> list[int]:
        """Handles all signals that either process has received; returns this process's."""
        now = time.monotonic()
        self._had = [(at, number) for at, number in self._had if now - at < _BOTH_S]
        for number in _read(self._received):
            waiting = next((entry for entry in self._due if entry[1] == number), None)
            if waiting is not None:
                self._due.remove(waiting)
            elif now - self._passed_on.pop(number, -_BOTH_S) >= _BOTH_S:
                self._had.append((now, number))
        own = _read(self._own)
        for number in own:
            if number == signal.SIGCONT:
                os.kill(self._child, number)
            elif number in _REQUESTS:
                if now - self._requested.get(number, -math.inf) < _BOTH_S:
                    continue
                self._requested[number] = now
                both = next((entry for entry in self._had if entry[1] == number), None)
                if both is not None:
                    self._had.remove(both)
                else:
                    self._due.append((now + _BOTH_S, number))
        while self._due and self._due[0][0] <= now:
            _, number = self._due.pop(0)
            self._passed_on[number] = now
            os.kill(self._child, number)
        return own

    def _stop_too(self) -> None:
        """Stops this process because the child was stopped (by Ctrl-Z, say); when continued, continues the child."""
        # After this, the stop signal has reached this process, too, or the child was already continued.
        time.sleep(0.05)
        if os.waitid(os.P_PID, self._child, os.WCONTINUED | os.WNOHANG) is None:
            os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._due = [entry for entry in self._due if entry[1] != signal.SIGTSTP]
        os.kill(self._child, signal.SIGCONT)


def _read(pipe: int) -> list[int]:
    """Returns the numbers of signals in a non-blocking pipe."""
    try:
        return list(os.read(pipe, 4096))
    except BlockingIOError:
        return []


def _result(memory: mmap.mmap, asked: set[int], code: int, arguments: list[str]) -> int:
    """Returns the command's exit code after the child's end with `code`; prints what killed the child, if killed."""
    chosen = activity.chosen_end(memory)
    if chosen is not None and (code >= 0 or (chosen and -code in asked)):
        # Code that runs at exit may end a process that has failed with 0; a failed flush of stdout ends one with 120.
        return chosen or code
    if chosen == _INTERRUPTED and -code == signal.SIGINT:
        # Where the interrupt came in a text of code that `exec` ran, which modules do as they are imported, Python ends
        # its process so, also where it was caught.
        return chosen
    if chosen is None and -code in asked:
        _say("veldt: interrupted")
        return _INTERRUPTED
    from veldt.cli.deaths import what_happened

    if os.isatty(2) and os.environ.get("TERM", "") not in ("", "dumb"):
        _say("\x1b[?25h")  # the progress panel hides the cursor and may have left it within a line
    for line in what_happened(memory, code, arguments):
        _say(line)
    return 1 if chosen is None else chosen


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be closed
        os.write(2, f"{text}\n".encode())
