"""Arrays that processes share: where there is no room for them, or no leave to make them, a sentence says so."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from veldt.errors import UsageError
from veldt.runtime.shared import Layout, SharedArrays

LAYOUTS = {"x": Layout((100, 10), "float32")}
WORKERS = (
    "ppo --env CartPole-v1 --steps 9000 --env-backend workers --processes 2 --num-envs 64 --batch-size 4096"
)


def test_too_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=812))
    with pytest.raises(UsageError, match=r"need 4\.03 kB more of shared memory, and /dev/shm has 812 B free"):
        SharedArrays(LAYOUTS, multiprocessing.get_context("spawn"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EROFS, r"the directory for it cannot be written \(Read-only file system\): mount /dev/shm"),
        (errno.EFBIG, r"a file may not be that large here \(ulimit -f\): raise the limit"),
        (errno.EIO, r"Input/output error: make room in /dev/shm"),
    ],
)
def test_a_block_that_cannot_be_made(code: int, said: str) -> None:
    def refused(*arguments: Any) -> Any:
        raise OSError(code, os.strerror(code))

    context: Any = SimpleNamespace(RawArray=refused)
    with pytest.raises(UsageError, match=r"need 4\.03 kB of shared memory, and .*" + said):
        SharedArrays(LAYOUTS, context)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the limit has other units")
def test_a_low_limit_of_file_sizes(in_tmp: Path) -> None:
    shell = f'ulimit -f 8; exec "$0" -m veldt train {WORKERS} --run-dir run'
    done = subprocess.run(
        ["bash", "-c", shell, sys.executable], capture_output=True, text=True, check=False, timeout=100
    )
    assert "a file may not be that large here (ulimit -f)" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr, done.stderr
    assert done.returncode in (1, 2)
