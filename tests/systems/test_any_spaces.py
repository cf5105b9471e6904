"""Environments with all kinds of spaces are trained, loaded and acted in; every action is one the space contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import environments
import veldt
from run_state import SMALL
from veldt.envs.spec import action_spec

NAMES = [
    "dictionary",
    "multi_discrete",
    "lopsided_box",
    "image_rows_columns_channels",
    "discrete_observation",
    "box_of_integers",
    "table_of_choices",
]


@pytest.mark.parametrize("recipe", ["ppo", "a2c"])
@pytest.mark.parametrize("name", NAMES)
def test_train_load_act(name: str, recipe: str, tmp_path: Path) -> None:
    """The environments raise for an action their space does not contain, in training and afterwards."""
    settings = SMALL | {"env": f"environments:{name}", "env_backend": "in-process", "steps": 150}
    if name.startswith("image"):
        del settings["hidden"]  # its network has no such layers
    if recipe == "a2c":
        settings = {
            k: v
            for k, v in settings.items()
            if k not in ("batch_size", "minibatches", "epochs", "anneal_clip")
        }
    run = veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    agent = veldt.load(run.path)
    env: gymnasium.Env[Any, Any] = agent.make_env()
    actions = []
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            action = agent.act(observation, greedy=seed == 0)
            assert env.action_space.contains(action), action
            actions.append(np.asarray(action).tobytes())
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    assert len(set(actions)) > 1
    assert len(veldt.evaluate(run.path, episodes=3).scores) == 3


def test_a_box_of_actions_is_used_up_to_its_bounds() -> None:
    """-1 and 1 stand for the bounds where both are finite; what is outside is clipped."""
    box = environments.lopsided_box().action_space  # [-3, -1], [0, 100], all numbers
    spec = action_spec(box)
    stored = {-1.0: [-3, 0, -1], 0.0: [-2, 50, 0], 1.0: [-1, 100, 1], 7.0: [-1, 100, 7], -7.0: [-3, 0, -7]}
    for value, expected in stored.items():
        action = spec.to_env(np.full(3, value, np.float32))
        assert box.contains(action) and action.tolist() == expected


def test_half_open_bounds() -> None:
    box = spaces.Box(np.array([0, -np.inf], np.float32), np.array([np.inf, 2], np.float32))
    spec = action_spec(box)
    assert spec.to_env(np.array([-3, 5], np.float32)).tolist() == [0, 2]
    assert spec.to_env(np.array([3, -5], np.float32)).tolist() == [3, -5]


@pytest.mark.parametrize("space", [spaces.Discrete(3, start=-7), spaces.MultiDiscrete([2, 4], start=[5, -1])])
def test_sampled_actions_reach_the_whole_action_space(space: spaces.Space[Any]) -> None:
    """All actions of the space are reached, and no other."""
    spec, rng = action_spec(space), np.random.default_rng(0)
    reached = {np.asarray(spec.to_env(stored)).tobytes() for stored in spec.sample(rng, 200)}
    assert all(space.contains(spec.to_env(stored)) for stored in spec.sample(rng, 50))
    assert len(reached) == np.prod(spec.sizes)
