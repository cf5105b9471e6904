"""The same seed gives the same weights in any arrangement of envs with the same groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veldt
from run_state import SMALL, assert_same_run, state_of
from veldt.agent import make_network
from veldt.envs.arrangement import probe_spec
from veldt.envs.source import resolve
from veldt.recipes import find

# In how many groups: the rounding of a network's output depends on the batch it was computed in.
ARRANGEMENTS: dict[str, list[dict[str, Any]]] = {
    "one group": [
        {"env_backend": "in-process", "alternate": "off"},
        {"env_backend": "workers", "processes": 1, "alternate": "off"},
        {"env_backend": "workers", "processes": 3, "alternate": "off"},
    ],
    "two groups": [
        {"env_backend": "in-process", "alternate": "on"},
        {"env_backend": "workers", "processes": 1},
        {"env_backend": "workers", "processes": 3, "alternate": "on"},
    ],
}
ATARI = {"num_envs": 4, "horizon": 5, "threads": 1, "precision": "fp32", "max_episode_steps": 8}
LSTM = {"num_envs": 4, "horizon": 6, "threads": 1, "precision": "fp32", "lstm": 5, "shared": True}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "CartPole": ("ppo", SMALL | {"env": "CartPole-v1", "steps": 320, "random_start_steps": 10}),
    "dictionary": ("ppo", SMALL | {"env": "environments:dictionary", "steps": 200, "resets": "wait"}),
    "normalised": (
        "ppo",
        SMALL
        | {"env": "environments:scripted", "steps": 320}
        | {"normalise_observations": True, "normalise_rewards": True},
    ),
    "scripted": ("a2c", LSTM | {"env": "environments:scripted", "steps": 200, "random_start_steps": 10}),
    "Breakout": ("a2c", ATARI | {"env": "ALE/Breakout-v5", "steps": 60}),
}


@pytest.mark.parametrize("grouping", ARRANGEMENTS)
@pytest.mark.parametrize("name", RUNS)
def test_same_run_in_any_arrangement(name: str, grouping: str, tmp_path: Path) -> None:
    recipe, settings = RUNS[name]
    arrangements = ARRANGEMENTS[grouping][: 2 if name == "Breakout" else 3]
    for number, arrangement in enumerate(arrangements):
        veldt.train(recipe, run_dir=tmp_path / str(number), quiet=True, **settings | arrangement)
        envs = {name for name in state_of(tmp_path / str(number)) if name.startswith("envs-")}
        assert len(envs) >= 4
        assert_same_run(tmp_path / "0", tmp_path / str(number))


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    """Else the comparisons above would compare constants."""
    weights = []
    for seed in (1, 2):
        run = tmp_path / str(seed)
        veldt.train("ppo", env="CartPole-v1", run_dir=run, quiet=True, seed=seed, steps=64, **SMALL)
        weights.append(
            np.concatenate([v.ravel() for k, v in state_of(run).items() if k.startswith("weights/")])
        )
    assert not np.array_equal(*weights)


def test_initial_weights_do_not_depend_on_threads() -> None:
    """Nor, so, on how many cores a machine has or on what ran in this process before."""
    config = find("a2c").config("ALE/Breakout-v5")
    spec = probe_spec(resolve("ALE/Breakout-v5"), config.atari)
    before = torch.get_num_threads()
    try:
        made = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            made.append(make_network(config, spec).state_dict())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for name, weight in made[0].items():
        assert torch.equal(weight, made[1][name]), name
