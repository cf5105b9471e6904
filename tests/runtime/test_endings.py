"""What a process of veldt prepares for the processes that an environment forks from it, and how an end is described."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import textwrap

import pytest

from veldt.runtime.endings import how_it_ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked to end them")


def output_of(code: str) -> str:
    """Runs a program in which `own_forks` is known, `os`, `signal` and `sys` are imported, and returns its output."""
    imports = "import os, signal, sys\nfrom veldt.runtime.endings import own_forks\n"
    done = subprocess.run(
        [sys.executable, "-c", imports + textwrap.dedent(code)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fork_of_a_fork_keeps_its_files() -> None:
    """A file of the fork may have the number of the pipe that only the process above it needs."""
    code = """
        low = os.open("/dev/null", os.O_RDONLY)
        own_forks()
        os.close(low)  # the pipe, opened again, gets this number
        if os.fork() == 0:
            files = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
            if os.fork() == 0:
                null = os.stat("/dev/null").st_ino
                print([file for file in files if os.fstat(file).st_ino != null], flush=True)
                os._exit(0)
            os.wait()
            os._exit(0)
        os.wait()
    """
    assert output_of(code) == "[]\n"


def test_a_fork_that_has_closed_all_files_opens_no_other() -> None:
    """As one does that goes on alone; a named pipe in the place of the closed one would stop the fork of it."""
    code = """
        import tempfile
        path = tempfile.mkdtemp() + "/pipe"
        os.mkfifo(path)
        own_forks()
        if os.fork() == 0:
            os.closerange(3, 64)
            for _ in range(8):
                os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            if os.fork() == 0:
                print("runs", flush=True)
                os._exit(0)
            os.wait()
            os._exit(0)
        os.wait()
    """
    assert output_of(code) == "runs\n"


def test_a_program_with_a_preexec_fn_can_be_interrupted() -> None:
    code = """
        import subprocess
        own_forks()
        program = subprocess.Popen(["sleep", "100"], preexec_fn=os.setsid)
        program.send_signal(signal.SIGINT)
        print(program.wait(10) == -signal.SIGINT)
    """
    assert output_of(code) == "True\n"


def test_threads_that_fork_keep_their_signals() -> None:
    """Each has a mask of its own, also where another forks at the same moment."""
    code = """
        import threading, time
        own_forks()
        sys.setswitchinterval(1e-6)

        def fork_often(blocked):
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            for _ in range(300):
                if os.fork() == 0:
                    os._exit(0)
                if signal.pthread_sigmask(signal.SIG_BLOCK, ()) != blocked:
                    print("other signals are blocked", flush=True)
                    break

        threads = [threading.Thread(target=fork_often, args=(each,)) for each in (set(), {signal.SIGINT})]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    assert output_of(code) == ""


def test_a_limit_of_cpu_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the login nodes of clusters; it ends a process by SIGKILL where it is the hard limit, too."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (600, 600))
    limit = "its limit of 600 s of CPU time (ulimit -t)"
    assert how_it_ended(-signal.SIGKILL) == (
        f"was killed by SIGKILL (by hand, by {limit}, or by the system for lack of memory)"
    )
    assert how_it_ended(-signal.SIGKILL, " while it ran a game") == (
        f"was killed by SIGKILL while it ran a game (by hand, by {limit}, by the system for lack of memory, or by that "
        "code)"
    )
    assert how_it_ended(-signal.SIGXCPU) == f"was killed by SIGXCPU ({limit})"
    assert how_it_ended(-signal.SIGSEGV) == "was killed by SIGSEGV"
