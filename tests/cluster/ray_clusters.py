"""Rays of tests: with token authentication, and seen when they are left behind."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from veldt.runtime.on_ray.settings import WORKER_NICENESS, quiet, token

_OF_RAY = re.compile(r"ray::|/raylet|gcs_server|on_ray|site-packages/ray/")
# By which processes of these tests are known, from those of others on this machine.
_MARK = "VELDT_TESTS_RAY"
os.environ[_MARK] = secrets.token_hex(8)


def left(directory: Path) -> list[str]:
    """What there is of Rays of these tests: processes, and directories for temporary files in `directory`."""
    found = [path.name for path in directory.glob("veldt-ray-*")]
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if (
            process.info["status"] != "zombie"
            and _OF_RAY.search(line)
            and "multiprocessing" not in line
            and process.pid != os.getpid()
        ):
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == os.environ[_MARK]:
                    found.append(f"{process.pid} {line[:80]}")
    return found


@contextlib.contextmanager
def private_ray() -> Iterator[None]:
    """In here Ray lets in only those who have this process's token, and its workers are as important as others."""
    quiet()
    with pytest.MonkeyPatch.context() as patch, token(fresh=True):
        patch.setenv(*WORKER_NICENESS)
        yield
