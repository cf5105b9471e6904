"""The runs that are compared: small, one for each recipe whose processes are all in this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import veldt
from run_state import SMALL, SMALL_REPLAYED

ON_POLICY = {"num_envs": 4, "hidden": (16,), "threads": 1, "precision": "fp32", "log_every": 0.0}
ROLLOUTS = ON_POLICY | {"horizon": 5}
REPLAYED = SMALL_REPLAYED | {"learning_rate": 1e-3}

# By name: recipe, environment, settings.
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a2c": ("a2c", "CartPole-v1", ROLLOUTS),
    "vtrace with an LSTM": (
        "a2c",
        "CartPole-v1",
        ROLLOUTS | {"algorithm": "vtrace", "lstm": 8, "shared": True},
    ),
    "vtrace": ("a2c", "CartPole-v1", ROLLOUTS | {"algorithm": "vtrace"}),
    "ppo": ("ppo", "CartPole-v1", SMALL),
    "ppo with normalisation": (
        "ppo",
        "environments:lopsided_box",
        SMALL | {"normalise_observations": True, "normalise_rewards": True, "clip_rewards": False},
    ),
    "ppo on a dictionary": ("ppo", "environments:dictionary", SMALL),
    "dqn": ("dqn", "CartPole-v1", REPLAYED),
    "dqn with double, dueling and Polyak averages": (
        "dqn",
        "CartPole-v1",
        REPLAYED | {"double": True, "dueling": True, "tau": 0.1, "target_update_interval": 0},
    ),
    "c51": ("c51", "CartPole-v1", REPLAYED),
    "rainbow": ("rainbow", "CartPole-v1", REPLAYED | {"noisy": True}),
    "ddpg": ("ddpg", "environments:bounded_box", SMALL_REPLAYED | {"target_update_interval": 0}),
}


def train(name: str, device: str, run_dir: Path, steps: int) -> veldt.Run:
    """Trains the run of this name for `steps` steps on `device`."""
    recipe, env, settings = RUNS[name]
    # The places of envs are otherwise measured, and they decide the sizes of batches, and so how sums are rounded.
    placed = {"env_backend": "in-process", "alternate": "off"}
    options = settings | placed | {"device": device, "seed": 3, "steps": steps, "quiet": True}
    return veldt.train(recipe, env=env, run_dir=run_dir, **options)
