"""An environment that hangs when it is closed costs a run nothing but some seconds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import veldt
from environments import Scripted
from run_state import SMALL
from veldt.envs.arrangement import probe_spec, time_step
from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.runs.checkpoints import CheckpointStore
from veldt.runtime import watchdog

pytestmark = pytest.mark.timeout(60)


class NeverCloses(Scripted):
    """Hangs when it is closed."""

    calls = 0

    def __init__(self) -> None:
        super().__init__([(5, "terminated")])

    def close(self) -> None:
        NeverCloses.calls += 1
        time.sleep(1000)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_CLOSE_S", 0.3)
    monkeypatch.setattr(NeverCloses, "calls", 0)


def test_a_run_in_this_process_has_its_last_checkpoint(tmp_path: Path) -> None:
    settings: dict[str, Any] = SMALL | {"env_backend": "in-process", "steps": 64, "quiet": True}
    run = veldt.train("ppo", env=NeverCloses, run_dir=tmp_path / "run", **settings)
    assert run.reason == "steps"
    assert CheckpointStore(run.path / "checkpoints").newest(print).meta["monitor"]["steps"] >= 64
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2


def test_the_first_look_at_an_environment() -> None:
    assert probe_spec(resolve(NeverCloses), AtariConfig()).observation
    assert time_step(resolve(NeverCloses), AtariConfig(), 20.0) > 0.0
    assert NeverCloses.calls == 2
