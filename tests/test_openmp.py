"""OpenMP's idle threads sleep soon, in every process that imports veldt, unless the user has set it otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from veldt.openmp import SPIN_COUNT, limit_spinning
from veldt.runtime.processes import Child, forkserver

# OpenMP shows its settings on stderr when it is loaded. (It is torch's own, without torch, which takes seconds.)
PROGRAM = "import {}; import ctypes; ctypes.CDLL({!r})"


def loaded_with(first: str, **environment: str) -> str:
    """OpenMP's own words about its spinning, in a process that imports `first` and then loads torch's OpenMP."""
    found = sorted(Path(torch.__file__).parent.glob("lib/libgomp*"))
    if not found:
        pytest.skip("torch comes with another OpenMP than GNU's")
    kept = {
        key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    command = [sys.executable, "-c", PROGRAM.format(first, str(found[0]))]
    environment = {**kept, "OMP_DISPLAY_ENV": "verbose", **environment}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    return lines[0].split("=")[1].strip(" '")


@pytest.mark.parametrize("first", ["veldt", "veldt.cli", "veldt.envs.worker", "veldt.runtime.on_ray.host"])
def test_openmp_is_loaded_with_a_limit(first: str) -> None:
    assert loaded_with(first) == str(SPIN_COUNT)


def test_the_users_own_setting_counts() -> None:
    assert loaded_with("veldt", GOMP_SPINCOUNT="123") == "123"
    assert int(loaded_with("veldt", OMP_WAIT_POLICY="active")) > 1_000_000


def test_nothing_else_is_set() -> None:
    for own in ({"GOMP_SPINCOUNT": "5"}, {"OMP_WAIT_POLICY": "passive"}):
        environment = dict(own)
        limit_spinning(environment)
        assert environment == own
    environment = {"OMP_NUM_THREADS": "2"}
    limit_spinning(environment)
    assert environment == {"OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": str(SPIN_COUNT)}


def _tell(pipe) -> None:  # type: ignore[no-untyped-def]
    pipe.send_bytes(os.environ.get("GOMP_SPINCOUNT", "").encode())


def test_processes_of_a_run_have_the_limit() -> None:
    child = Child(forkserver(["veldt.envs.worker"]), "a child", _tell)
    try:
        assert child.receive(60.0) == os.environ["GOMP_SPINCOUNT"].encode()
    finally:
        child.end(10.0)
