"""A child process lives until it is killed or its parent ends, and its cause of death is reported."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import answers, closes_and_lingers, draws

from sessions import session
from veldt.runtime.processes import Child, forkserver


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    child = Child(forkserver(["veldt.envs.worker"]), "a child", request.param)
    yield child
    child.kill()


@pytest.mark.parametrize("child", [answers], indirect=True)
def test_only_the_end_of_its_parent_ends_a_child(child: Child) -> None:
    """The child may see bytes that `multiprocessing` writes to its pipe late, and must not end by them."""
    child.pipe.send_bytes(b"a")
    assert child.receive(20) == b"a"
    write_end = child._process._popen.finalizer._args[0]  # type: ignore[attr-defined]
    os.write(write_end, b"late")
    time.sleep(0.2)
    child.pipe.send_bytes(b"b")
    assert child.receive(20) == b"b" and child.alive()


@pytest.mark.skipif(sys.platform != "linux", reason="the processes of a session are read from /proc")
def test_a_child_ends_with_its_parent_where_what_that_has_forked_lives_on() -> None:
    """A program may have forked processes of its own while it trains, which inherit all of its pipes."""
    code = f"""
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from children import answers
from veldt.runtime.processes import Child, forkserver

child = Child(forkserver(["veldt.envs.worker"]), "a child", answers)
if os.fork() == 0:
    time.sleep(100)
    os._exit(0)
print(child._process.pid, flush=True)
time.sleep(100)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        program.kill()
        deadline = time.monotonic() + 20
        while child in (found := {each.pid: each for each in session(program.pid)}):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for process in found.values():
            process.kill()
    assert child not in found and len(found) > 0


@pytest.mark.parametrize("child", [closes_and_lingers], indirect=True)
def test_receive_returns_none_when_a_child_exits_slowly(child: Child) -> None:
    began = time.monotonic()
    assert child.receive(60) is None
    assert time.monotonic() - began < 20 and not child.alive()
    assert child.cause_of_death() == "exited with code 7"


@pytest.mark.parametrize("child", [answers], indirect=True)
def test_receive_returns_none_for_a_killed_child(child: Child) -> None:
    child.kill()
    assert child.receive(20) is None
    assert not child.alive() and child.cause_of_death().startswith("was killed by SIGKILL")
    child.kill()


def test_no_two_children_draw_the_same_random_numbers() -> None:
    """Environments may use the global generators, whose state a forked process inherits."""
    context = forkserver(["veldt.envs.worker"])
    children = [Child(context, f"a child {number}", draws) for number in range(3)]
    said = [child.receive(60) for child in children]
    for child in children:
        child.kill()
    assert None not in said
    for name, numbers in zip(
        ("numpy", "random", "torch"),
        zip(*(ast.literal_eval((each or b"").decode()) for each in said), strict=True),
        strict=True,
    ):
        assert len(set(numbers)) == len(children), name


def test_a_program_ends_whose_daemon_thread_has_children_and_starts_more() -> None:
    """As one does that trains in a thread. `multiprocessing` waits for its processes, and these do not heed SIGTERM."""
    code = f"""
import sys, threading
sys.path.insert(0, {str(Path(__file__).parent)!r})
from children import ignores_signals
from veldt.runtime.processes import Child, forkserver

begun = threading.Event()

def trains():
    while True:
        child = Child(forkserver(["veldt.envs.worker"]), "a child", ignores_signals)
        assert child.receive(20) == b"begun"
        begun.set()
        child.receive(1000)

threading.Thread(target=trains, daemon=True).start()
begun.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_end_of_a_child_is_known_where_the_program_has_blocked_all_signals() -> None:
    """Its fork server would inherit that, and learns of its children's ends by SIGCHLD."""
    code = f"""
import signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from children import closes_and_lingers
from veldt.runtime.processes import Child, forkserver

signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 30))
child = Child(forkserver(["veldt.envs.worker"]), "a child", closes_and_lingers)
assert child.receive(20) is None
print(child.cause_of_death())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("exited with code 7\n", "")
