"""Subnormal numbers are flushed to 0 while a run trains, and the process's own mode is restored afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from child_runs import START_S, child

import veldt
from run_state import SMALL
from veldt.learning.learner import Learner


def flushed() -> bool:
    return float(torch.tensor(1e-310, dtype=torch.float64) * 0.5) == 0.0


@pytest.mark.parametrize("fails", [False, True])
def test_only_while_a_run_trains(fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, update = [], Learner.update

    def watched(self: Learner, *arguments: Any) -> Any:
        seen.append(flushed() and float(np.float32(1e-40) * np.float32(0.5)) == 0.0)
        if fails:
            raise RuntimeError("it failed")
        return update(self, *arguments)

    monkeypatch.setattr(Learner, "update", watched)
    settings = SMALL | {"env": "CartPole-v1", "steps": 128, "env_backend": "in-process"}
    assert not flushed()
    if fails:
        with pytest.raises(RuntimeError):
            veldt.train("ppo", run_dir=tmp_path / "run", quiet=True, **settings)
    else:
        veldt.train("ppo", run_dir=tmp_path / "run", quiet=True, **settings)
    assert seen and all(seen)
    assert not flushed()


_ALL_THREADS = """
import torch, veldt, veldt.systems.run
from veldt.learning.learner import Learner

update, make_run_plan = Learner.update, veldt.systems.run.make_run_plan

def measured(*arguments):  # torch's threads begin to work before training does
    torch.ones(1_000_000).mul_(2)
    return make_run_plan(*arguments)

def watched(self, *arguments):
    small = torch.full((1_000_000,), 1e-40)
    print("flushed" if bool((small * 0.5 == 0).all()) else "not flushed")
    return update(self, *arguments)

Learner.update, veldt.systems.run.make_run_plan = watched, measured
settings = dict(num_envs=2, batch_size=32, minibatches=1, epochs=1, threads=2)
veldt.train("ppo", env="CartPole-v1", steps=128, env_backend="in-process", run_dir="run", quiet=True, **settings)
"""


def test_on_all_of_torchs_threads(tmp_path: Path) -> None:
    with child(_ALL_THREADS, tmp_path) as process:
        out, error = process.communicate(timeout=START_S)
    assert not process.returncode, error
    assert set(out.split("\n")) == {"flushed", ""}
