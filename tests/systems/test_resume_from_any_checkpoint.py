"""A run resumed from any of its checkpoints equals the run that was not interrupted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import veldt
from run_state import SMALL, assert_same_run
from veldt.runs.directory import RunDirectory

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "cartpole": {"env": "CartPole-v1"},
    # Episodes end and begin on every row of a slot, the first and the last included.
    "scripted": {"env": "environments:scripted", "random_start_steps": 20},
    "scripted, wait": {"env": "environments:scripted", "resets": "wait"},
    "scripted, lstm": {"env": "environments:scripted", "random_start_steps": 20, "lstm": 5, "shared": True},
    "scripted, lstm, wait": {"env": "environments:scripted", "resets": "wait", "lstm": 5, "shared": True},
    "dictionary": {"env": "environments:dictionary"},
    "scripted, normalised": {
        "env": "environments:scripted",
        "normalise_observations": True,
        "normalise_rewards": True,
    },
    "box of actions": {"env": "environments:lopsided_box", "resets": "wait", "random_start_steps": 5},
}
PPO_ONLY = {"batch_size", "minibatches", "epochs", "anneal_clip"}
RECURRENT = [name for name in ENVIRONMENTS if "lstm" in name]
PHASES = 6  # at the least: reset steps are none of the run's


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        *(("ppo", name) for name in ENVIRONMENTS if name not in RECURRENT),
        *(("a2c", name) for name in ("cartpole", "scripted", *RECURRENT)),
    ],
)
def test_resume_from_any_checkpoint(recipe: str, name: str, tmp_path: Path) -> None:
    steps = PHASES * SMALL["batch_size"] * 3 // 4
    settings = SMALL | {
        "checkpoint_every": 1,
        "keep_checkpoints": 100,
        "steps": steps,
        "env_backend": "in-process",
    }
    if recipe == "a2c":
        settings = {key: value for key, value in settings.items() if key not in PPO_ONLY} | {"horizon": 16}
    veldt.train(recipe, **ENVIRONMENTS[name], run_dir=tmp_path / "whole", quiet=True, **settings)
    checkpoints = sorted((tmp_path / "whole" / "checkpoints").iterdir())
    assert len(checkpoints) >= PHASES - 2
    for checkpoint in checkpoints[:-1]:
        run = tmp_path / f"from-{checkpoint.name}"
        shutil.copytree(tmp_path / "whole", run)
        for later in (run / "checkpoints").iterdir():
            if later.name > checkpoint.name:
                shutil.rmtree(later)
        veldt.resume(run, quiet=True)
        assert_same_run(tmp_path / "whole", run)
        notes = [event["text"] for event in RunDirectory.open(run).read_events()]
        assert not [note for note in notes if "not deterministic" in note], checkpoint.name
