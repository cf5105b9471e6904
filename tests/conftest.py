"""What all tests share: the test environments can be imported by name, here and in processes started from here."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

from fork_servers import env_context
from veldt.registry import _registries
from veldt.runtime.processes import PRELOAD_ROLES
from veldt.user_code import attribution

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH", "")]))
# A busy machine is no failure of a test; where the variable CI is set, Hypothesis itself says so.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("busy")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of the two lists of variants. Where all tests are collected, each line must name one."""
    for mark in ("long", "exhaustive"):
        listed = f"{mark}_variants.txt"
        names = {line for line in (Path(HERE) / listed).read_text().splitlines() if line and line[0] != "#"}
        found = [item for item in items if item.nodeid in names]
        for item in found:
            item.add_marker(mark)
        if config.args == config.getini("testpaths") and (unknown := names - {item.nodeid for item in found}):
            raise pytest.UsageError(f"tests/{listed} names no test: {', '.join(sorted(unknown))}")


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays, and need not be looked at in each collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test, so that `runs/` is made there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is remembered of code that was trained with stays out of the home directory, also in child processes."""
    path = tmp_path_factory.mktemp("state")
    os.environ["XDG_STATE_HOME"] = str(path)
    return path


@pytest.fixture(scope="session", autouse=True)
def warm_forkserver() -> None:
    """Env processes and roles start from one server that has loaded what they need, whichever test comes first.

    Without it, each role of each run would spend two seconds of a core on importing torch.
    """
    env_context(*PRELOAD_ROLES)


@pytest.fixture(autouse=True)
def no_plugin_of_another_test() -> Iterator[None]:
    """What a plug-in has registered in a test is not there in the next, which may import it anew."""
    before, recorded = set(sys.modules), dict(attribution._parts)
    yield
    attribution._parts.clear()
    attribution._parts.update(recorded)
    for registry in _registries:
        for name in [name for name in registry if registry.plugin_of(name) is not None]:
            module = registry._origins.pop(name)
            if module not in before:  # pickle needs a test file's own classes as they are
                sys.modules.pop(module, None)
            del registry._parts[name]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.fsync` guards against power cuts, which no test causes, and would be most of the time that tests take."""
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
