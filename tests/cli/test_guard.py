"""The two processes of the command behave as one: signals, job control, exit codes, and their ends."""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from veldt.cli.guard import guarded

GUARDED = [sys.executable, str(Path(__file__).with_name("guarded.py"))]
KILLED = "was killed by SIGKILL (by hand, or by the system for lack of memory)"
SECONDS = 10.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


@contextmanager
def waiting(work: str = "wait") -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """The command, and its child, once that waits."""
    with subprocess.Popen(
        [*GUARDED, work], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            wait_until(lambda: Path("child").exists() and Path("child").read_text() != "", "the child begins")
            child = psutil.Process(int(Path("child").read_text()))
            assert child.ppid() == process.pid
            yield process, child
        finally:
            process.kill()
    wait_until(lambda: not running(child), "the child ends with the command")


def running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def heard() -> list[str]:
    return Path("signals").read_text().split() if Path("signals").exists() else []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_comes_once(number: signal.Signals, in_tmp: Path) -> None:
    """The signal is sent to the command alone, to both processes (as by a terminal), or to the child alone."""
    with waiting() as (process, child):
        for count, send in enumerate(
            (process.send_signal, lambda n: os.killpg(process.pid, n), child.send_signal), start=1
        ):
            send(number)
            wait_until(lambda count=count: len(heard()) >= count, "it comes")
            time.sleep(0.8)
            assert heard() == [number.name] * count
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 7
        assert process.stderr is not None and process.stderr.read() == ""


def test_a_signal_to_the_command_and_then_to_its_group_is_one(in_tmp: Path) -> None:
    """As `timeout` and some job schedulers send theirs."""
    with waiting() as (process, _):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.8)
        assert heard() == ["SIGINT"]


def test_two_signals_arrive_as_two(in_tmp: Path) -> None:
    with waiting() as (process, _):
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.1)
        time.sleep(0.8)
        assert heard() == ["SIGINT", "SIGINT"]


def test_a_signal_before_its_handler_is_installed(in_tmp: Path) -> None:
    with waiting("killed early") as (process, _):
        process.terminate()
        assert process.wait(SECONDS) == 130
        assert process.stderr is not None and process.stderr.read() == "veldt: interrupted\n"


@pytest.mark.parametrize("whom", ["both", "the command", "the child"])
def test_the_command_is_stopped_and_continued_with_its_child(whom: str, in_tmp: Path) -> None:
    with waiting() as (process, child):
        command = psutil.Process(process.pid)
        if whom == "both":
            os.killpg(process.pid, signal.SIGSTOP)
        else:
            (command if whom == "the command" else child).send_signal(signal.SIGSTOP)
        wait_until(lambda: command.status() == psutil.STATUS_STOPPED, "the command stops")
        time.sleep(0.2)
        assert whom == "the command" or child.status() == psutil.STATUS_STOPPED
        process.send_signal(signal.SIGCONT)
        for one in (command, child):
            wait_until(lambda one=one: one.status() != psutil.STATUS_STOPPED, "it goes on")
        time.sleep(0.5)
        assert psutil.STATUS_STOPPED not in (command.status(), child.status())
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 7


def test_the_keys_of_a_terminal(in_tmp: Path) -> None:
    """Ctrl-Z gives the terminal back to the shell, `fg` takes it, and Ctrl-C comes once."""
    script = f"{shlex.join(GUARDED)} wait; echo stopped $?; while [ ! -e go ]; do sleep 0.1; done; fg; echo ended $?"
    shell, terminal = pty.fork()
    if shell == 0:
        os.execvp("bash", ["bash", "-mc", script])
    said = b""

    def says(text: bytes) -> bool:
        nonlocal said
        if select.select([terminal], [], [], 0.01)[0]:
            with contextlib.suppress(OSError):  # the shell has ended
                said += os.read(terminal, 1000)
        return text in said

    try:
        wait_until(lambda: Path("child").exists() and Path("child").read_text() != "", "the child begins")
        child = psutil.Process(int(Path("child").read_text()))
        os.write(terminal, b"\x1a")
        wait_until(lambda: says(b"stopped 1"), "the shell goes on")
        assert child.status() == psutil.STATUS_STOPPED
        Path("go").touch()
        wait_until(lambda: child.status() != psutil.STATUS_STOPPED, "the child goes on")
        time.sleep(0.5)
        os.write(terminal, b"\x03")
        wait_until(lambda: heard() == ["SIGINT"], "Ctrl-C comes")
        time.sleep(0.5)
        assert heard() == ["SIGINT"] and child.status() != psutil.STATUS_STOPPED
        child.terminate()
        wait_until(lambda: says(b"ended 7"), "the command ends")
    finally:
        os.close(terminal)
        os.waitpid(shell, 0)


def test_kill_9_of_the_command(in_tmp: Path) -> None:
    with waiting() as (process, _):
        process.kill()


def test_kill_9_of_the_child(in_tmp: Path) -> None:
    with waiting() as (process, child):
        child.kill()
        assert process.wait(SECONDS) == 1
        assert process.stderr is not None and process.stderr.read() == (
            f"veldt: its process {KILLED} in the middle of its work\n"
        )


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        ("fork", 1, "veldt: its process exited with code 0 in the middle of its work\n"),
        (
            "die at exit",
            0,
            f"veldt: all was done, but as its process ended it {KILLED}\n",
        ),
        ("fail, and end with 0 at exit", 1, ""),
        ("fail, and die at exit", 1, f"veldt: after its failure, as its process ended, it {KILLED}\n"),
        ("interrupted again at exit", 130, "veldt: interrupted\n"),
        ("end unseen", 0, ""),
        ("start no thread", 3, ""),
    ],
)
def test_the_exit_of_the_child_is_the_exit_of_the_command(work: str, code: int, said: str) -> None:
    done = subprocess.run([*GUARDED, work], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (code, said)


def test_an_interrupt_that_came_in_a_text_of_code() -> None:
    """Only a module that is run as one ends so, as by `python -m veldt`."""
    done = subprocess.run(
        [sys.executable, "-m", "guarded", "interrupted in a text of code"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (130, "veldt: interrupted\n")


def test_a_parent_that_ignores_the_ends_of_its_children() -> None:
    """Ignored signals stay so in a program that is started: then no process can wait for its children."""
    done = subprocess.run(
        [*GUARDED, "end unseen"],
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_process_may_be_started(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        assert guarded(lambda: None, []) == 1
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert capfd.readouterr().err.startswith(
        "veldt: cannot start a process: the system lets this user start no further process or thread: "
    )


def ended(work: str) -> subprocess.CompletedProcess[str]:
    """A command that was waited for."""
    return subprocess.run([*GUARDED, work], check=False, capture_output=True, text=True, timeout=20)


def test_orphans_that_end_are_collected(in_tmp: Path) -> None:
    """Each would have a process id until the end of the command, of which a container has few."""
    assert ended("orphans").returncode == 0
    assert Path("left").read_text() == "[]"


def test_a_process_that_never_ends_is_ended() -> None:
    """Python waits for ever for one that is no daemon."""
    assert ended("process").returncode == 0


def test_a_process_has_a_moment_to_end_by_itself(in_tmp: Path) -> None:
    assert ended("writer").returncode == 0
    assert Path("written").exists()


@pytest.mark.parametrize(
    ("work", "awaited"),
    [
        ("thread", r"the thread 'lasting'"),
        ("wait at exit", r"wait_at_exit.<locals>.upload \(.+guarded.py:\d+\)"),
    ],
)
def test_what_is_awaited_is_named(work: str, awaited: str) -> None:
    with subprocess.Popen([*GUARDED, work], stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        try:
            assert run.stderr is not None
            assert select.select([run.stderr], [], [], SECONDS)[0], "nothing is said"
            assert re.search(f"waits for {awaited}", run.stderr.readline())
            run.send_signal(signal.SIGINT)
            assert run.wait(10) == 0
        finally:
            run.kill()
