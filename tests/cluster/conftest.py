"""What tests on clusters share: token authentication, on this machine only, and nothing left behind."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from veldt.runtime.on_ray.settings import on_loopback, quiet, token


def ray_processes() -> list[str]:
    """What of Ray runs among this process's descendants, and in sessions of its own."""
    found = []
    for process in psutil.process_iter(["cmdline", "ppid", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if process.info["status"] != "zombie" and ("ray::" in line or "raylet" in line or "gcs_server" in line):
            found.append(f"{process.pid} {line[:80]}")
    return found


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fails if a process, a file in /dev/shm or a directory of a Ray is there after the test that was not before."""

    def there() -> set[str]:
        shared = {path.name for path in Path("/dev/shm").glob("*") if not path.name.startswith("sem.")}
        return {*ray_processes(), *shared, *(path.name for path in Path("/tmp").glob("veldt-ray-*"))}

    before = there()
    yield
    end = time.monotonic() + 20
    while left := there() - before:
        assert time.monotonic() < end, left
        time.sleep(0.1)


@contextlib.contextmanager
def private_ray() -> Iterator[None]:
    """In here Ray starts on the loopback interface, and lets in only those who have this process's token."""
    quiet()
    with token(fresh=True), on_loopback():
        yield
