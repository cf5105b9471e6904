"""A command that lacks memory, or may not open or write files, says so in a sentence, with what to do."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from veldt.cli.limits import limit_reached
from veldt.errors import RoleError, UsageError

ROLES = "apex-dqn --env CartPole-v1 --steps 400 --learning-starts 200 --batch-size 16 --actors 2 --log none"
WORKERS = "ppo --env CartPole-v1 --steps 300 --env-backend workers --processes 2 --num-envs 8 --batch-size 64"


def trained_within(limit: str, arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """`veldt train` in a shell with this limit."""
    return subprocess.run(
        ["bash", "-c", f'{limit}; exec "$0" -m veldt train {arguments} --run-dir run', sys.executable],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="how many files a start needs differs")
@pytest.mark.parametrize(("limit", "arguments"), [(20, ROLES), (24, ROLES), (32, ROLES), (20, WORKERS)])
def test_too_few(limit: int, arguments: str, in_tmp: Path) -> None:
    done = trained_within(f"ulimit -n {limit}", arguments, in_tmp)
    assert done.returncode == 1
    said = f"a process may open {limit} files at once here (ulimit -n), and this takes more: raise the limit with "
    assert f"{said}`ulimit -n 1024`" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="how a library is loaded differs")
def test_too_little_memory_for_a_library(in_tmp: Path) -> None:
    done = trained_within("ulimit -v 400000", "ppo --env CartPole-v1", in_tmp)
    assert done.returncode == 1
    said = "cannot be loaded: a process may have 410 MB of memory here (ulimit -v), and this takes more"
    assert done.stderr.count("\n") == 1 and said in done.stderr, done.stderr


def test_no_file_may_be_written(in_tmp: Path) -> None:
    done = trained_within("ulimit -f 0", "ppo --env CartPole-v1", in_tmp)
    assert done.returncode == 1
    assert done.stderr.startswith("veldt: no file may be written here (ulimit -f is 0): raise it"), (
        done.stderr
    )
    assert done.stderr.count("\n") == 1


def test_every_disk_for_temporary_files_is_full() -> None:
    full = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp', '/var/tmp']")
    said = limit_reached(full)
    assert (
        said and "no directory takes temporary files (tried '/tmp', '/var/tmp')" in said and "TMPDIR" in said
    )


NUMPY = "Unable to allocate 153. MiB for an array with shape (16, 2500010) and data type int32"
TORCH = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "1600000000 bytes. Error code 12 (Cannot allocate memory)"
)
GPU = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB"
FAILED = ImportError("libtorch_cpu.so: failed to map segment from shared object")


@pytest.mark.parametrize(
    ("error", "limited", "unlimited"),
    [
        (
            MemoryError(NUMPY),
            "160 MB more: a process may have 2 GB here (ulimit -v)",
            "160 MB more on this machine",
        ),
        (
            MemoryError(),
            "not enough memory: a process may have 2 GB here",
            "not enough memory on this machine",
        ),
        (RuntimeError(TORCH), "1.6 GB more: a process may have 2 GB here", "1.6 GB more on this machine"),
        (
            RoleError(f"the replay failed (MemoryError: {NUMPY})"),
            "160 MB more: a process",
            "160 MB more on this",
        ),
        (
            torch.OutOfMemoryError(GPU),
            "the GPU has no room for 21 MB more: lower",
            "the GPU has no room for 21 MB",
        ),
        (
            OSError(12, "Cannot allocate memory"),
            "not enough memory: a process may",
            "not enough memory on this",
        ),
        (
            FAILED,
            "libtorch_cpu.so cannot be loaded: a process may have 2 GB of memory here (ulimit -v)",
            None,
        ),
        (RoleError("the actor 0 failed (ValueError: no)"), None, None),
        (ImportError("no module"), None, None),
    ],
)
def test_too_little_memory(
    error: BaseException, limited: str | None, unlimited: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence with `ulimit -v`, and without."""
    for limit, expected in ((2_000_000_000, limited), (resource.RLIM_INFINITY, unlimited)):
        monkeypatch.setattr(resource, "getrlimit", lambda which, limit=limit: (limit, limit))
        said = limit_reached(error)
        assert said is None if expected is None else said is not None and expected in said
        assert said is None or "lower --buffer-size, --num-envs" in said or "and start again" in said


def test_a_damaged_file_that_asks_for_too_much_memory_is_none_of_these() -> None:
    damaged = UsageError("starts.npz is not a file of starts, or it is damaged")
    damaged.__cause__ = MemoryError(NUMPY)
    assert limit_reached(damaged) is None
