"""What all tests share: the test environments can be imported by name, here and in processes started from here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from veldt.runtime.processes import forkserver

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH", "")]))


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
    """Env processes start from one server with the emulator loaded, whichever test comes first."""
    forkserver(["veldt.envs.worker", "gymnasium", "veldt.envs.atari"])
