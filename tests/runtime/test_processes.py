"""A child process lives until it is killed or its parent ends, and its cause of death is reported."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from children import answers, closes_and_lingers

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
