"""Describes how a process ended, and makes a process end with its parent. Imports almost nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import threading

# The exit code of a fork server which the system lets start no further process.
NO_MORE_CODE = os.EX_TEMPFAIL
NO_MORE_PROCESSES = (
    "the system lets this user start no further process or thread: raise its limit (ulimit -u, or the container's "
    "limit of processes), end other programs, or use fewer processes"
)

# Signals that a closing terminal, `timeout` or a job scheduler sends to all processes of a run at once.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def how_it_ended(code: int) -> str:
    """Describes the exit code of a process, as the end of a sentence; -N stands for the signal N."""
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
    why = " (by hand, or by the system for lack of memory)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{why}"


def end_with(parent_pipe: int) -> None:
    """Makes this process die when the other end of the pipe `parent_pipe` closes; nothing is ever sent on the pipe.

    On Linux the kernel sends the signal (for any event on the pipe), so that an environment stuck in native code that
    holds the interpreter lock dies too.
    """
    closes = select.poll()
    closes.register(parent_pipe, select.POLLIN)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(parent_pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent_pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent_pipe, fcntl.F_SETFL, fcntl.fcntl(parent_pipe, fcntl.F_GETFL) | os.O_ASYNC)
        if closes.poll(0):  # it closed before the kernel was asked to signal
            os._exit(1)
    else:

        def watch() -> None:
            closes.poll()
            os._exit(1)

        threading.Thread(target=watch, daemon=True, name="exit-with-parent").start()


def own_forks() -> None:
    """Prepares the processes that an environment forks from this process: they end with it, however it ends (on Linux).

    They do not have its handlers of signals, with which `terminate` would not end them. Ctrl-C is for this process.
    """
    read, write = os.pipe()
    # Of the thread that forks, which holds the interpreter's lock meanwhile.
    mask: list[int] = []

    def before() -> None:
        # A signal that comes before the handlers are replaced would be lost.
        mask[:] = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)

    def after() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def in_child() -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in ENDINGS[1:]:
            signal.signal(number, signal.SIG_DFL)
        after()
        if hasattr(fcntl, "F_SETSIG"):
            with contextlib.suppress(OSError):  # it is closed in a fork of a fork
                os.close(write)
            # Opened again, because the process to signal belongs to what was opened, which forks share. The kernel's
            # signal for the end of a parent would also come when only the thread ends that has forked.
            end_with(os.open(f"/proc/self/fd/{read}", os.O_RDONLY))

    os.register_at_fork(before=before, after_in_parent=after, after_in_child=in_child)
