"""Nothing that a command has started outlives it: no process, and no folder in the directory of temporary files."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sessions import session

SMALL = "--steps 400 --learning-starts 200 --batch-size 16 --actors 1 --log none"
# Commands, and their exit codes.
COMMANDS = {
    "train apex-dqn --env CartPole-v1 --stepz 5": 2,
    "train apex-dqn --env CartPol-v1": 2,
    "train ga3c --help": 0,
    "train impala --env CartPole-v1 --network nosuch:net": 2,
    "train gorila --env CartPole-v1 --learners 0": 2,
    "train impala --env faulty_envs:ends_process": 1,
    f"train apex-dqn --env CartPole-v1 {SMALL}": 0,
}


@pytest.mark.skipif(sys.platform != "linux", reason="the processes of a session are read from /proc")
@pytest.mark.parametrize("arguments", COMMANDS)
def test_after_a_command(arguments: str, in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDING", "os._exit(0) make 0")
    with _started(arguments, in_tmp) as (process, temporary):
        assert process.wait(timeout=120) == COMMANDS[arguments], (in_tmp / "errors").read_text()
        assert list(session(process.pid)) == []
        assert list(temporary.glob("pymp-*")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the processes of a session are read from /proc")
@pytest.mark.parametrize("has_time", [True, False], ids=["", "its fork server has no time to clean up"])
def test_after_the_working_process_was_killed(in_tmp: Path, has_time: bool) -> None:
    command = (
        f"train apex-dqn --env CartPole-v1 {SMALL.replace('400', '1_000_000')} --log-every 0.2 --run-dir run"
    )
    with _started(command, in_tmp) as (process, temporary):
        _within(60, (in_tmp / "run" / "metrics.jsonl").exists)
        (working,) = psutil.Process(process.pid).children()
        if not has_time:
            (server,) = (child for child in working.children() if "forkserver" in " ".join(child.cmdline()))
            server.suspend()
        working.send_signal(signal.SIGKILL)
        assert process.wait(timeout=30) == 1
        _within(10, lambda: not list(session(process.pid)))
        assert list(temporary.glob("pymp-*")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the command has a parent on Linux only")
def test_a_program_that_a_shell_has_started_before_is_left_alone(in_tmp: Path) -> None:
    python = shlex.quote(sys.executable)  # its path may have a space
    command = f"sleep 1000 & echo $!; exec {python} -m veldt train ppo --env CartPol-v1"
    done = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.stdout is not None
    other = psutil.Process(int(done.stdout.readline()))
    try:
        assert done.wait(60) == 2
        assert other.is_running() and other.status() != psutil.STATUS_ZOMBIE
    finally:
        other.kill()
        done.communicate()


@contextlib.contextmanager
def _started(arguments: str, directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Yields the process of a command, in a session of its own, and its directory of temporary files."""
    # Not below `directory`: the paths of sockets in it may have 107 letters.
    with (
        tempfile.TemporaryDirectory(prefix="veldt-") as temporary,
        (directory / "errors").open("wb") as errors,
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "veldt", *arguments.split()],
            cwd=directory,
            env=os.environ | {"TMPDIR": temporary},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield process, Path(temporary)
        finally:
            for left in session(process.pid):
                left.kill()
            process.wait()


def _within(seconds: float, done: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)
