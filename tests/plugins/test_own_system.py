"""A system of a user's own, in one file: it learns with several algorithms, resumes, and survives a lost learner."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import veldt
from documentation import EXAMPLES
from veldt.config.fit import incompatibility
from veldt.config.system_registry import SYSTEMS

SMALL: dict[str, Any] = {"env": "CartPole-v1", "quiet": True, "threads": 1, "learners": 2, "num_envs": 16}


@pytest.fixture(autouse=True)
def gala(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    __import__("gala")


def test_it_fits_every_algorithm() -> None:
    assert SYSTEMS.plugin_of("gala") == "gala"
    assert incompatibility("gala", "dqn") is None and incompatibility("gala", "vtrace") is None


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("a2c", {}), ("dqn", {"learning_starts": 256, "batch_size": 32, "buffer_size": 4000})],
)
def test_it_learns_and_resumes(algorithm: str, settings: dict[str, Any], tmp_path: Path) -> None:
    run = veldt.train(
        "gala-a2c", algorithm=algorithm, run_dir=tmp_path / "run", steps=3_000, **SMALL | settings
    )
    assert run.summary["steps"] >= 3_000
    assert veldt.resume(run.path, steps=4_000, quiet=True).summary["steps"] >= 4_000
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2


@pytest.mark.alone
def test_a_learner_that_dies_is_started_again(tmp_path: Path) -> None:
    def kill_one() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            named = [p for p in psutil.Process().children(recursive=True) if "learner 1" in _title(p)]
            if (
                named
                and (tmp_path / "run" / "checkpoints").exists()
                and any((tmp_path / "run").glob("checkpoints/*"))
            ):
                os.kill(named[0].pid, signal.SIGKILL)
                return
            time.sleep(0.1)

    killer = threading.Thread(target=kill_one)
    killer.start()
    run = veldt.train("gala-a2c", run_dir=tmp_path / "run", steps=60_000, **SMALL)
    killer.join()
    events = (run.path / "events.jsonl").read_text()
    assert "the learner 1 " in events and "started again from its neighbour's weights" in events


def _title(process: psutil.Process) -> str:
    try:
        return " ".join([process.name(), *process.cmdline(), Path(f"/proc/{process.pid}/comm").read_text()])
    except (psutil.Error, OSError):
        return ""


def test_several_processes_in_one_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SYSTEMS["gala"].settings, "in_one_process", True)
    with pytest.raises(
        veldt.UsageError, match=r"the system gala has several processes .* GalaConfig says in_one_proc"
    ):
        veldt.train("gala-a2c", run_dir=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()
