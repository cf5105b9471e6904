"""A fork server that is killed or stopped is named and replaced, and the processes that it started go on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from veldt.errors import VeldtError
from veldt.runtime.fork_server import server

HERE = Path(__file__).parent
KILLED = "was killed by SIGKILL (by hand, or by the system for lack of memory)"
STOPPED = "was stopped for 0.5 s (SIGSTOP, by hand or by another program)"
LOST = "the fork server, which starts the processes of this run, {}: the run goes on, and a new server starts the next "
HOW = [pytest.param(signal.SIGKILL, KILLED, id="killed"), pytest.param(signal.SIGSTOP, STOPPED, id="stopped")]


def said(cwd: Path, *arguments: str) -> list[str]:
    paths = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, str(HERE / "servers.py"), *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("number", "how"), HOW)
def test_processes_outlive_their_server(number: signal.Signals, how: str, tmp_path: Path) -> None:
    sentence, first, second = said(tmp_path, "at work", str(int(number)))
    assert sentence == f"{LOST.format(how)}process"
    assert first == "ended, how is not known, because its fork server has ended, too"
    assert second == KILLED


@pytest.mark.parametrize(("number", "how"), HOW)
def test_a_server_lost_before_it_has_started_a_process_is_replaced(
    number: signal.Signals, how: str, tmp_path: Path
) -> None:
    assert said(tmp_path, "at import", str(int(number))) == [f"{LOST.format(how)}process"]


def test_servers_that_are_killed_again_and_again_end_the_run_with_a_sentence(tmp_path: Path) -> None:
    (sentence,) = said(tmp_path, "always", str(int(signal.SIGKILL)))
    assert sentence.startswith(
        f"the fork server, which starts the processes of this run, {KILLED} before it had started the learner 0, as 2 "
        "others before it: "
    )


def test_a_forked_process_has_a_server_of_its_own(tmp_path: Path) -> None:
    assert said(tmp_path, "forked", "0") == ["the forked process", "the process itself"]


def test_a_forked_process_whose_parent_has_ended(tmp_path: Path) -> None:
    assert said(tmp_path, "left", "0") == ["True"]


def test_the_server_itself_may_not_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure_running() -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(server.forkserver_module, "ensure_running", ensure_running)
    with pytest.raises(
        VeldtError, match="this run's processes: the system lets this user start no further process"
    ):
        server._ensure_servers()


def test_a_worker_of_a_pool_has_children(tmp_path: Path) -> None:
    assert said(tmp_path, "pool", "0") == ["True"]


def test_a_server_whose_end_the_program_has_waited_for(tmp_path: Path) -> None:
    sentence, answered = said(tmp_path, "waited for", "0")
    assert sentence == f"{LOST.format('ended, how is not known,')}process" and answered == "True"


def test_a_server_that_may_not_fork_is_no_reason_to_try_again(tmp_path: Path) -> None:
    (sentence,) = said(tmp_path, "no more", "0")
    assert sentence.startswith(
        "cannot start the learner 0: the system lets this user start no further process "
    )


def test_two_threads_start_processes_at_once(tmp_path: Path) -> None:
    assert said(tmp_path, "two threads", "0") == ["done", "done"]
