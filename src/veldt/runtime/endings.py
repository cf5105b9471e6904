"""Describes how a process ended, and makes a process end with its parent. Imports almost nothing."""

from __future__ import annotations

import fcntl
import os
import resource
import select
import signal
import threading

# The exit code of a fork server which the system lets start no further process.
NO_MORE_CODE = os.EX_TEMPFAIL
NO_MORE_PROCESSES = (
    "the system lets this user start no further process or thread: raise its limit (ulimit -u, ulimit -v, or the "
    "container's limit of processes), end other programs, or use fewer processes"
)

# Signals that a closing terminal, `timeout` or a job scheduler sends to all processes of a run at once.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def how_it_ended(code: int, ran: str = "") -> str:
    """Describes the exit code of a process, as the end of a sentence; -N stands for the signal N.

    `ran` names the user's code that the process ran then: " while it ran ...".
    """
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"exited with code {code}{ran}" if code >= 0 else f"was killed by signal {-code}{ran}"
    # A limit of CPU time ends a process by SIGXCPU, which it may catch, and then by SIGKILL.
    seconds = resource.getrlimit(resource.RLIMIT_CPU)[0]
    limit = "" if seconds == resource.RLIM_INFINITY else f"its limit of {seconds:,} s of CPU time (ulimit -t)"
    killers = ["by hand", f"by {limit}" if limit else "", "by the system for lack of memory"]
    *killers, last = filter(None, [*killers, "by that code" if ran else ""])
    causes = {
        signal.SIGKILL: f" ({', '.join(killers)}, or {last})",
        signal.SIGXCPU: f" ({limit})" if limit else "",
    }
    return f"was killed by {number.name}{ran}{causes.get(number, '')}"


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
    opened = _opened(read)
    closed = False  # the writing end: in a fork, whose own forks may have another file with its number
    # Of each thread that forks: others may fork between the two calls.
    masks = threading.local()

    def before() -> None:
        # A signal that comes before the handlers are replaced would be lost.
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)

    def after() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def in_child() -> None:
        nonlocal closed
        signal.set_wakeup_fd(-1)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            # Not ignored, which a program that it becomes (`preexec_fn`) would inherit.
            signal.signal(signal.SIGINT, lambda *_: None)
        for number in ENDINGS[1:]:
            signal.signal(number, signal.SIG_DFL)
        after()
        if hasattr(fcntl, "F_SETSIG"):
            if not closed:
                os.close(write)
                closed = True
            if _opened(read) == opened:  # a process that goes on alone closes all that it has inherited
                # Opened again, because the process to signal belongs to what was opened, which forks share. The
                # kernel's signal for the end of a parent would also come when only the thread ends that has forked.
                end_with(os.open(f"/proc/self/fd/{read}", os.O_RDONLY))

    os.register_at_fork(before=before, after_in_parent=after, after_in_child=in_child)


def _opened(descriptor: int) -> tuple[int, int] | None:
    """Returns what tells the open pipe or file of a number from all others; None if none has this number."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
