"""What the host of a role on Ray was doing is read after its end."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from veldt.runtime.on_ray import process_handle
from veldt.runtime.on_ray.host_record import HostRecord
from veldt.runtime.process_state import start_of

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files without a name are Linux's")
NAME = "environment Wheel-v0, env 5 (seed 7)"
# Writes its descriptor, waits for a line, and ends in the midst of a step.
HOST = """
import ctypes, os, signal
from veldt.runtime.activity import Record
from veldt.runtime.on_ray.host_record import write_record
print(write_record(), flush=True)
input()
record = Record("environment Wheel-v0", width=2, first=4)
record.episodes[:, 1] = 7, 100
record.progress[:] = 1, 0, 141, 5
record.busy[0] = {busy}
{end}
"""


def left_by(end: str, busy: int = 1) -> HostRecord:
    """The record of a host that ended by the statement `end`."""
    code = HOST.format(end=end, busy=busy)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as host:
        assert host.stdout is not None
        record = HostRecord(host.pid, start_of(host.pid), int(host.stdout.readline()))
        host.communicate("\n", timeout=60)
    return record


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_code_that_ran_is_named(end: str) -> None:
    record = left_by(end)
    doing = record.doing()
    assert doing is not None
    assert (doing.code, doing.place) == (NAME, "in step 40")
    assert doing.is_final and record.crash() == ""
    record.close()
    assert record.doing() is None


@pytest.mark.parametrize(
    ("end", "name"), [("ctypes.string_at(0)", "Segmentation fault"), ("os.abort()", "Aborted")]
)
def test_a_crash_has_its_stack(end: str, name: str) -> None:
    record = left_by(end)
    assert record.doing() is not None
    assert name in record.crash().splitlines()[0] and 'File "<string>", line 11 in <module>' in record.crash()
    record.close()


@pytest.mark.parametrize(
    ("end", "busy", "error", "is_final"),
    [
        ("os.abort()", 1, f"{NAME} ended its process in step 40: the process crashed in native code", True),
        ("os.abort()", 0, "its process crashed in native code", False),
    ],
)
def test_the_failure_of_a_role(end: str, busy: int, error: str, is_final: bool) -> None:
    handle: Any = process_handle.RayProcessHandle(0, 0, None, Mock())
    handle._process, handle._died = SimpleNamespace(record=left_by(end, busy)), "was lost with its node"
    assert handle.failure() is None
    handle._died = process_handle._UNKNOWN
    failure = handle.failure()
    assert (failure.error, failure.is_final) == (error, is_final)
    assert ("in <module>" in failure.details) == (end == "os.abort()")
    handle._process.record.close()


def test_the_code_that_may_have_ended_a_role() -> None:
    handle: Any = process_handle.RayProcessHandle(0, 0, None, Mock())
    handle._process, handle._died = SimpleNamespace(record=left_by("os._exit(3)")), "was lost with its node"
    assert handle.cause_of_death() == "was lost with its node" and handle.user_code() is None
    handle._died = process_handle._UNKNOWN
    assert handle.failure() is None
    assert handle.cause_of_death() == (
        f"died while it ran {NAME}, in step 40 (killed by hand, by the system for lack of memory, or ended by that "
        "code)"
    )
    assert handle.user_code().suspect == "", "an episode had ended before"
    handle._process.record.close()
    handle._process = SimpleNamespace(record=left_by("record.episodes[1, 1] = 0; os._exit(3)"))
    assert handle.user_code().suspect == "environment Wheel-v0"
    handle._process.record.close()


def test_code_of_the_role_itself_is_not_the_users() -> None:
    record = left_by("os._exit(3)", busy=0)
    assert record.doing() is None
    record.close()


def test_a_host_that_is_gone_has_no_record() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        start = start_of(gone.pid)
    record = HostRecord(gone.pid, start, 3)
    assert record.doing() is None and record.crash() == ""
