"""What tests on clusters share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rays import ray_processes


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
