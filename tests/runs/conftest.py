"""A disk that fills up: a real one where this process may mount it, and `os.write` that fails like one."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.fsync` guards against power cuts, which no test causes, and would be most of the time the tests take."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


SmallDisk = Callable[[int], AbstractContextManager[Path]]


@pytest.fixture(params=["mounted", "imitated"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> SmallDisk:
    """A function: room in bytes -> context manager of a directory that has about that much room."""
    return lambda room: (_mounted if request.param == "mounted" else _imitated)(tmp_path / "disk", room)


@contextlib.contextmanager
def _mounted(place: Path, room: int) -> Iterator[Path]:
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={room}", "none", str(place)]
    try:
        may_mount = (
            os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True).returncode == 0
        )
    except OSError:
        may_mount = False
    if not may_mount:
        pytest.skip("this process may not mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextlib.contextmanager
def _imitated(place: Path, room: int) -> Iterator[Path]:
    place.mkdir()
    left, write = room, os.write

    def limited(descriptor: int, data: bytes | memoryview) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # The last write that fits is cut short, as on a real disk.
        taken = write(descriptor, bytes(data)[:left])
        left -= taken
        return taken

    with mock.patch("os.write", limited):
        yield place
