"""A command in two processes, whose work is to wait: `python guarded.py WORK`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil

from veldt.cli.guard import guarded


def note(number: int, frame: object) -> None:
    """Writes down each signal, and ends at a SIGTERM."""
    with Path("signals").open("a") as file:
        file.write(f"{signal.Signals(number).name}\n")
    if number == signal.SIGTERM:
        raise SystemExit(7)


def wait() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, note)
    if sys.argv[1] == "killed early":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Path("child").write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)


def die_at_exit() -> None:
    import atexit

    atexit.register(os.kill, os.getpid(), signal.SIGKILL)


def fail_and_end_with_0() -> None:
    """What was registered to run at exit ends the process as if all was well."""
    import atexit

    atexit.register(os._exit, 0)
    raise SystemExit(1)


def fail_and_die_at_exit() -> None:
    die_at_exit()
    raise SystemExit(1)


def interrupted_again_at_exit() -> None:
    """The command is interrupted, says so, and is interrupted once more while it ends."""
    import atexit

    def again() -> None:
        os.kill(os.getppid(), signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        time.sleep(10)

    atexit.register(again)
    raise KeyboardInterrupt


def interrupted_in_a_text_of_code() -> None:
    """Modules compile some of their functions so as they are imported. Python itself then ends the process by SIGINT,
    although the interrupt was caught."""
    exec("raise KeyboardInterrupt")


def end_in_a_fork() -> None:
    """What the user's code has forked ends by itself, and then the process ends otherwise."""
    if os.fork() == 0:
        raise SystemExit(0)
    os.wait()
    os._exit(0)


def end_unseen() -> None:
    """The child closes its pipe, as every process that ends does, and ends a little later; see `looking_early`."""
    time.sleep(0.3)
    os.close(signal.set_wakeup_fd(-1))
    time.sleep(0.3)


def looking_early() -> None:
    """From its second call on, `os.waitpid` returns only when a child that it has found running has ended."""
    look, calls = os.waitpid, 0

    def waitpid(child: int, options: int) -> tuple[int, int]:
        nonlocal calls
        found, calls = look(child, options), calls + 1
        while calls > 1 and found == (0, 0) and "State:\tZ" not in Path(f"/proc/{child}/status").read_text():
            time.sleep(0.01)
        return found

    os.waitpid = waitpid


def leave_orphans() -> None:
    """Starts programs whose parent ends before them, as environments may at each reset, and counts what is left."""
    for _ in range(20):
        os.system("sleep 0.01 &")
    time.sleep(1)
    left = [child.name() for child in psutil.Process(os.getppid()).children() if child.pid != os.getpid()]
    Path("left").write_text(str(left))


def leave_process() -> None:
    """Begins a process that is no daemon, for which Python waits."""
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,)).start()


def leave_writer() -> None:
    """Begins a process which ends by itself a moment later."""

    def write() -> None:
        time.sleep(0.5)
        Path("written").touch()

    multiprocessing.get_context("fork").Process(target=write).start()


def leave_thread() -> None:
    threading.Thread(target=time.sleep, args=(1000,), name="lasting").start()


def start_no_thread() -> None:
    """Ends with 3, where the system starts no further thread for this user."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    threading._start_new_thread = refuse  # type: ignore[attr-defined]
    raise SystemExit(3)


def wait_at_exit() -> None:
    import atexit

    def upload() -> None:
        time.sleep(1000)

    atexit.register(upload)


WORKS = {
    "wait at exit": wait_at_exit,
    "orphans": leave_orphans,
    "process": leave_process,
    "writer": leave_writer,
    "thread": leave_thread,
    "wait": wait,
    "killed early": wait,
    "die at exit": die_at_exit,
    "fail, and end with 0 at exit": fail_and_end_with_0,
    "fail, and die at exit": fail_and_die_at_exit,
    "interrupted again at exit": interrupted_again_at_exit,
    "interrupted in a text of code": interrupted_in_a_text_of_code,
    "fork": end_in_a_fork,
    "end unseen": end_unseen,
    "start no thread": start_no_thread,
}

if __name__ == "__main__":
    if sys.argv[1] == "end unseen":
        looking_early()
    sys.exit(guarded(WORKS[sys.argv[1]], sys.argv[1:]))
