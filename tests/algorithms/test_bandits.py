"""Training finds the best arm, for every kind of action space."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from small_worlds import Bandit

import veldt

Make = Callable[[], gymnasium.Env[np.ndarray, Any]]

RECIPES = {
    "a2c": {"learning_rate": 5e-3, "horizon": 16},
    "ppo": {"learning_rate": 1e-2, "batch_size": 128, "minibatches": 2, "epochs": 4},
}


def discrete() -> gymnasium.Env[np.ndarray, int]:
    return Bandit("discrete")


def multi() -> gymnasium.Env[np.ndarray, np.ndarray]:
    return Bandit("multi")


def box() -> gymnasium.Env[np.ndarray, np.ndarray]:
    return Bandit("box")


@pytest.mark.parametrize("recipe", RECIPES)
# A Gaussian still explores at the end, so its mean return says less than its likeliest action.
@pytest.mark.parametrize(
    ("make", "mean", "greedy"), [(discrete, 0.95, 1.0), (multi, 0.95, 1.0), (box, 0.6, 0.9)]
)
def test_the_best_arm_is_found(recipe: str, make: Make, mean: float, greedy: float, tmp_path: Path) -> None:
    run = veldt.train(
        recipe,
        env=make,
        run_dir=tmp_path / "run",
        quiet=True,
        steps=10_000,
        env_backend="in-process",
        num_envs=8,
        threads=1,
        device="cpu",
        hidden=(16,),
        ent_coef=0.0,
        **RECIPES[recipe],
    )
    assert run.summary["ep_return_mean"] > mean
    agent, env = veldt.load(run.path, env=make), make()
    observation, _ = env.reset(seed=0)
    assert env.step(agent.act(observation, greedy=True))[1] >= greedy


@pytest.mark.parametrize(
    ("recipe", "make", "settings"),
    [
        ("dqn", discrete, {"epsilon_end": 0.0, "epsilon_steps": 500}),
        ("c51", discrete, {"noisy": True, "value_min": -1.0, "value_max": 2.0, "atoms": 31}),
        ("ddpg", box, {"actor_learning_rate": 1e-2, "exploration_noise": 0.05}),
    ],
)
def test_the_best_arm_is_found_from_a_replay_buffer(
    recipe: str, make: Make, settings: dict[str, Any], tmp_path: Path
) -> None:
    run = veldt.train(
        recipe,
        env=make,
        run_dir=tmp_path / "run",
        quiet=True,
        steps=1500,
        env_backend="in-process",
        num_envs=8,
        threads=1,
        device="cpu",
        precision="fp32",
        hidden=(32,),
        batch_size=64,
        training_intensity=64.0,
        horizon=0,
        learning_starts=200,
        target_update_interval=50,
        learning_rate=1e-2,
        **settings,
    )
    assert run.summary["ep_return_mean"] > 0.9
    agent, env = veldt.load(run.path, env=make), make()
    observation, _ = env.reset(seed=0)
    assert env.step(agent.act(observation, greedy=True))[1] >= 0.95
