"""Rays of tests: with token authentication, and seen when they are left behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil

from veldt.runtime.on_ray.settings import quiet, token


def ray_processes() -> list[str]:
    """What of Ray runs among this process's descendants, and in sessions of its own."""
    found = []
    for process in psutil.process_iter(["cmdline", "ppid", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if process.info["status"] != "zombie" and (
            "ray::" in line or "raylet" in line or "gcs_server" in line
        ):
            found.append(f"{process.pid} {line[:80]}")
    return found


@contextlib.contextmanager
def private_ray() -> Iterator[None]:
    """In here Ray lets in only those who have this process's token."""
    quiet()
    with token(fresh=True):
        yield
