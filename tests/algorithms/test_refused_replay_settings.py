"""Impossible settings of replay algorithms are refused in one sentence, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import veldt
from environments import Hashed, lopsided_box, multi_discrete
from veldt.algorithms.c51 import C51Config
from veldt.algorithms.ddpg import DDPGConfig
from veldt.algorithms.dqn import DQNConfig
from veldt.errors import UsageError
from veldt.replay.settings import ReplayConfig

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"
SMALL: dict[str, Any] = {
    "quiet": True,
    "env_backend": "in-process",
    "device": "cpu",
    "precision": "fp32",
    "threads": 1,
    "steps": 400,
}


def unbounded() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-np.inf, np.inf, (2,), np.float32))


def refused(sentence: str, recipe: str, env: Any, directory: Path, **settings: Any) -> None:
    with pytest.raises(UsageError, match=sentence) as refusal:
        veldt.train(recipe, env=env, **SMALL | settings)
    assert "\n" not in str(refusal.value)
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize(
    ("recipe", "env", "sentence"),
    [
        ("dqn", PENDULUM, "^dqn cannot choose .* continuous: take .*ddpg"),
        ("c51", PENDULUM, "^c51 cannot choose .* continuous: take .*ddpg"),
        (
            "rainbow",
            multi_discrete,
            "^rainbow cannot choose .* several discrete choices at once: take a recipe that can .*a2c, .*ppo",
        ),
        ("ddpg", CARTPOLE, "^ddpg cannot choose .* which are discrete: take .*dqn"),
        ("ddpg", multi_discrete, "^ddpg cannot choose .*: take .*ppo"),
        (
            "ddpg",
            unbounded,
            r"^the actor's actions lie between bounds, .*\[-inf, -inf\] to \[inf, inf\]: give",
        ),
        ("ddpg", lopsided_box, r"^the actor's actions lie between bounds, .*\[-3.0, 0.0, -inf\]"),
    ],
)
def test_actions_of_another_kind(recipe: str, env: Any, sentence: str, in_tmp: Path) -> None:
    refused(sentence, recipe, env, in_tmp)


@pytest.mark.parametrize(
    ("flag", "value"), [("buffer_size", 1000), ("replay", "prioritised"), ("priority_exponent", 0.5)]
)
@pytest.mark.parametrize("recipe", ["a2c", "ppo"])
def test_replay_settings_of_an_on_policy_algorithm_are_refused(
    recipe: str, flag: str, value: Any, in_tmp: Path
) -> None:
    name = f"--{flag.replace('_', '-')}"
    sentence = f"^{name} is about a replay buffer, and {recipe} learns from fresh rollouts"
    refused(sentence, recipe, CARTPOLE, in_tmp, **{flag: value})


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        (
            "dqn",
            {"horizon": 70, "num_envs": 8, "buffer_size": 500, "learning_starts": 100, "batch_size": 32},
            "^each of the 8 envs makes 70 steps .* keeps 63 of each: take a larger --buffer-size, or a shorter",
        ),
        (
            "rainbow",
            {"scale_learning_rate": "paper"},
            "^--scale-learning-rate would have no effect: the paper does not scale",
        ),
        (
            "dqn",
            {"replay": "uniform", "priority_exponent": 0.5},
            "^--priority-exponent is for prioritised replay, .* uniform",
        ),
        (
            "c51",
            {"replay": "uniform", "importance_exponent": 0.5},
            "^--importance-exponent is for prioritised replay",
        ),
        (
            "ddpg",
            {"replay": "uniform", "importance_exponent_end": 0.5},
            "^--importance-exponent-end is for prioritised replay",
        ),
        (
            "rainbow",
            {"replay": "uniform", "priority_exponent": 0.5},
            "^--priority-exponent is for prioritised replay",
        ),
        (
            "dqn",
            {"optimiser": "adam", "rmsprop_decay": 0.9},
            "^--rmsprop-decay would have no effect: --optimiser is adam",
        ),
        (
            "c51",
            {"optimiser": "adam", "rmsprop_epsilon": 0.9},
            "^--rmsprop-epsilon would .* --optimiser is adam",
        ),
        (
            "dqn",
            {"optimiser": "rmsprop", "adam_epsilon": 1e-4},
            "^--adam-epsilon would .* --optimiser is rmsprop",
        ),
        ("dqn", {"optimiser": "rmsprop", "scale_adam_epsilon": True}, "^--scale-adam-epsilon would have no"),
        ("dqn", {"exploration": "ladder", "epsilon_end": 0.2}, "^--epsilon-end would .* each env has"),
        (
            "rainbow",
            {"noisy": True, "epsilon_start": 0.5},
            "^--epsilon-start would .* layers' noise explores",
        ),
        (
            "dqn",
            {"noisy": True, "exploration": "ladder"},
            "^--exploration would have no effect: with --noisy",
        ),
        ("dqn", {"noisy_sigma": 0.3}, "^--noisy-sigma would have no effect: .* without --noisy"),
        ("dqn", {"compress_frames": True}, "^--compress-frames is for images"),
    ],
)
def test_settings_without_effect_are_refused(
    recipe: str, settings: dict[str, Any], sentence: str, in_tmp: Path
) -> None:
    refused(sentence, recipe, PENDULUM if recipe == "ddpg" else CARTPOLE, in_tmp, **settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"batch_size": 512, "learning_starts": 1000, "buffer_size": 1000},
            "^--batch-size is 512, and a replay buffer for 1,000 transitions of 8 envs holds only 496",
        ),
        ({"learning_starts": 5000, "buffer_size": 4999}, "^--learning-starts is 5,000, .* keeps 4,999"),
        (
            {"batch_size": 128, "learning_starts": 100},
            "^--batch-size is 128, and learning starts after 100 steps",
        ),
        (
            {"batch_size": 16, "learning_starts": 16, "n_step": 9, "buffer_size": 64},
            "^--buffer-size is 64, 8 for each of the 8 envs: .* more than 64 for returns over 9 steps",
        ),
        (
            {"batch_size": 2, "learning_starts": 2, "buffer_size": 7},
            "^--batch-size is 2, and a replay buffer for 7 transitions of 8 envs holds only 0",
        ),
        ({"buffer_size": 10**13}, "^--buffer-size is 10,000,000,000,000 and needs .* GiB"),
    ],
)
def test_sizes_that_do_not_go_together(settings: dict[str, Any], sentence: str, in_tmp: Path) -> None:
    refused(sentence, "dqn", CARTPOLE, in_tmp, **{"num_envs": 8, "n_step": 1} | settings)


@pytest.mark.parametrize(
    ("config", "name", "values"),
    [
        (DQNConfig, "batch_size", [0, -1, 1.5]),
        (DQNConfig, "learning_starts", [0]),
        (DQNConfig, "n_step", [0]),
        (DQNConfig, "horizon", [-1]),
        (DQNConfig, "target_update_interval", [-1]),
        (DQNConfig, "max_grad_norm", [-0.5]),
        (DQNConfig, "training_intensity", [0.0, -1.0, float("nan"), float("inf")]),
        (DQNConfig, "learning_rate", [0.0, float("nan")]),
        (DQNConfig, "gamma", [-0.1, 1.1]),
        (DQNConfig, "tau", [0.0, 1.1]),
        (DQNConfig, "epsilon_start", [-0.1, 1.1]),
        (DQNConfig, "epsilon_end", [-0.1, 1.1]),
        (DQNConfig, "evaluation_epsilon", [-0.1, 1.1]),
        (DQNConfig, "epsilon_steps", [-1]),
        (DQNConfig, "exploration_fraction", [0.0, 1.5]),
        (DQNConfig, "adam_epsilon", [0.0]),
        (DQNConfig, "rmsprop_epsilon", [0.0]),
        (DQNConfig, "rmsprop_decay", [-0.1, 1.0]),
        (DQNConfig, "noisy_sigma", [0.0]),
        (DQNConfig, "optimiser", ["sgd"]),
        (DQNConfig, "exploration", ["none"]),
        (DQNConfig, "scale_learning_rate", ["sqrt"]),
        (C51Config, "atoms", [1]),
        (C51Config, "value_min", [10.0, 11.0]),
        (C51Config, "value_max", [-10.0]),
        (DDPGConfig, "actor_learning_rate", [0.0]),
        (DDPGConfig, "adam_epsilon", [0.0]),
        (DDPGConfig, "exploration_noise", [-0.1]),
        (DDPGConfig, "action_gradient_clip", [-0.1]),
        (ReplayConfig, "buffer_size", [0]),
        (ReplayConfig, "priority_exponent", [-0.1, 1.1]),
        (ReplayConfig, "importance_exponent", [-0.1, 1.1]),
        (ReplayConfig, "importance_exponent_end", [-0.1, 1.1]),
    ],
)
def test_values_out_of_range(config: Any, name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} .*must be"):
            config(**{name: value})
