"""What tests on clusters share."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_clusters import left


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a Ray has its files; fails if any of them, or a process, is there after the test that was not before."""
    directory = Path(tempfile.mkdtemp(dir="/tmp", prefix="vt"))
    monkeypatch.setenv("TMPDIR", str(directory))
    before = set(left(directory))
    yield directory
    end = time.monotonic() + 20
    while found := set(left(directory)) - before:
        assert time.monotonic() < end, found
        time.sleep(0.1)
    shutil.rmtree(directory)
