"""Training finds values known in closed form: it bootstraps through a truncation, and not past a termination."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from small_worlds import Clock

import veldt

Make = Callable[[], gymnasium.Env[np.ndarray, int]]

LENGTH, DISCOUNT = 5, 0.9
TERMINATED = [sum(DISCOUNT**k for k in range(LENGTH - t)) for t in range(LENGTH)]
TRUNCATED = [1 / (1 - DISCOUNT)] * LENGTH


def terminated() -> gymnasium.Env[np.ndarray, int]:
    return Clock(LENGTH, "terminated")


def truncated() -> gymnasium.Env[np.ndarray, int]:
    return Clock(LENGTH, "truncated")


RECIPES = {
    # A horizon that is no multiple of the episode's length cuts episodes everywhere.
    "a2c": {"horizon": 16},
    "ppo": {"batch_size": 128, "minibatches": 2, "epochs": 4, "clip_values": False},
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("make", "values"), [(terminated, TERMINATED), (truncated, TRUNCATED)])
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
def test_values(recipe: str, make: Make, values: list[float], resets: str, tmp_path: Path) -> None:
    run = veldt.train(
        recipe,
        env=make,
        run_dir=tmp_path / "run",
        quiet=True,
        steps=10_000,
        env_backend="in-process",
        num_envs=8,
        resets=resets,
        threads=1,
        device="cpu",
        hidden=(32,),
        gamma=DISCOUNT,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.0,
        learning_rate=5e-3,
        anneal_learning_rate=True,
        **RECIPES[recipe],
    )
    agent = veldt.load(run.path, env=make)
    with torch.no_grad():
        _, learned = agent._network(torch.eye(LENGTH))
    np.testing.assert_allclose(learned, values, rtol=0.01)
