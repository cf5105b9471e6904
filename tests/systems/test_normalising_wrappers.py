"""A wrapper that normalises has statistics of its own in each env: a warning says what to do instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, TimeLimit

import veldt
from run_state import SMALL


def wrapped() -> gymnasium.Env[Any, Any]:
    return TimeLimit(NormalizeReward(NormalizeObservation(gymnasium.make("CartPole-v1"))), 100)


def plain() -> gymnasium.Env[Any, Any]:
    return TimeLimit(gymnasium.make("CartPole-v1"), 100)


def test_a_setting_that_a_recipe_does_not_have_is_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    veldt.train(
        "dqn", env=wrapped, run_dir=tmp_path / "run", steps=64, num_envs=2, learning_starts=32, batch_size=8
    )
    said = " ".join(capsys.readouterr().err.split())
    assert "wrapped in NormalizeReward, " in said and "--normalise-rewards" not in said


def test_each_wrapper_is_named_with_the_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for make in (wrapped, plain):
        veldt.train("ppo", env=make, run_dir=tmp_path / make.__name__, **SMALL | {"steps": 64})
        said = " ".join(capsys.readouterr().err.split())
        for wrapper, setting in (
            ("NormalizeObservation", "--normalise-observations"),
            ("NormalizeReward", "--normalise-rewards"),
        ):
            assert (f"is wrapped in {wrapper}, " in said) == (make is wrapped)
            assert (f"leave it out, and take {setting}" in said) == (make is wrapped)
