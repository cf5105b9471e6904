"""What a killed run has left is removed by the next run, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import veldt
from veldt.errors import UsageError
from veldt.runtime import orphans
from veldt.runtime.orphans import remove_orphans
from veldt.runtime.process_state import start_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="semaphores are files on Linux")
# Makes what a run has, and is killed with everything that could remove it.
RUN = """
import os, signal
from pathlib import Path
from multiprocessing import util
from veldt.runtime.processes import forkserver
semaphore = forkserver([]).Semaphore(0)
print(util.get_temp_dir(), semaphore._semlock.name, flush=True)
os.killpg(0, signal.SIGKILL)
"""
# Its server ends before it does, and outlives it.
LEFT = """
import os, time
from veldt.runtime.fork_server.socket_folder import remove_if_left
if os.fork() == 0:
    os.close(1), os.close(2)
    remove_if_left(f"{{os.getppid()}}:{}")
    os._exit(0)
time.sleep(0.5)
os._exit(0)
"""


def ended(code: str, temporary: Path) -> subprocess.CompletedProcess[str]:
    """A program with this code, in a session of its own, and with this directory of temporary files."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=60,
    )


def test_what_a_killed_process_group_has_left(tmp_path_factory: pytest.TempPathFactory) -> None:
    temporary = tmp_path_factory.mktemp("short")  # with a test's name its path may be too long for sockets
    folder, name = ended(RUN, temporary).stdout.split()
    semaphore = Path("/dev/shm") / f"sem.{name.removeprefix('/')}"
    assert Path(folder).parent == temporary and Path(folder).is_dir() and semaphore.exists()
    remove_orphans(temporary)
    assert not Path(folder).exists() and not semaphore.exists()


def test_a_run_in_one_process_removes_it_too(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts no server, and so has no other reason to look."""
    temporary = tmp_path_factory.mktemp("short")
    folder, name = ended(RUN, temporary).stdout.split()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pytest.raises(UsageError, match="no callback"):  # before it measures and trains
        veldt.train("ppo", env="CartPole-v1", env_backend="in-process", callback="no_such_module:make")
    assert not Path(folder).exists() and not Path("/dev/shm", f"sem.{name.removeprefix('/')}").exists()


def test_a_server_removes_the_folder_of_a_process_that_is_about_to_end(tmp_path: Path) -> None:
    """A killed process has closed its files a moment before it is gone."""
    folder = tmp_path / "pymp-x"
    folder.mkdir()
    begun = time.monotonic()
    assert ended(LEFT.format(folder), tmp_path).returncode == 0
    while folder.exists():
        assert time.monotonic() < begun + 10
        time.sleep(0.01)


def test_sockets_are_in_tmp_where_the_temporary_directory_has_a_long_path(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    done = ended(RUN.replace("os.killpg(0, signal.SIGKILL)", "pass"), long)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.split()[0])
    assert folder.parent == Path("/tmp") and not folder.exists() and not list(long.iterdir())


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    """Unmarked files, those of a living process, of another machine or container, links, and other names."""
    machine, own, start = orphans._machine(), os.getpid(), start_of(os.getpid())
    dead = f"veldt.{machine}.{own}.{start - 1}"  # a process that had the same process id
    kept = ["sem.mp-abcdefgh", f"sem.mp-veldt.{machine}.{own}.{start}-a", f"sem.mp-veldt.00000000.{own}.1-a"]
    kept += [f"{dead}-a", "sem.mp-veldt.x-a"]
    for name in (*kept, f"sem.mp-{dead}-a"):
        (tmp_path / name).touch()
    folders = {
        "pymp-a": [],
        "pymp-b": ["listener-a"],
        "pymp-c": [dead, f"veldt.{machine}.{own}.{start}"],
        "pymp-d": [dead.replace(str(machine), "00000000")],
        "mine": [dead],
    }
    for folder, files in {**folders, "pymp-orphan": [dead, "listener-a"]}.items():
        (tmp_path / folder).mkdir()
        for name in files:
            (tmp_path / folder / name).touch()
    (tmp_path / "pymp-link").symlink_to(tmp_path / "mine")
    remove_orphans(tmp_path, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, *folders, "pymp-link"])
    assert (tmp_path / "mine" / dead).exists()


def test_a_child_of_multiprocessing_has_a_folder_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One that trains, in a pool, removes its folder or leaves it with its mark: not that of its parent."""
    child = """
import multiprocessing, os
from multiprocessing import util
from veldt.runtime.orphans import mark_own

def train():
    mark_own()
    print(util.get_temp_dir(), flush=True)

print(util.get_temp_dir(), flush=True)
process = multiprocessing.get_context("fork").Process(target=train)
process.start()
process.join()
print(os.listdir(util.get_temp_dir()))
"""
    temporary = tmp_path_factory.mktemp("short")
    parents, childs, left = ended(child, temporary).stdout.splitlines()
    assert parents != childs and left == "[]" and not list(temporary.iterdir())
