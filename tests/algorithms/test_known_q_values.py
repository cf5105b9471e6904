"""Training from a replay buffer finds action values, and actions, that are known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from small_worlds import Aim, Chain, Clock, ClockWithBox
from torch import nn

import veldt
from veldt.agent import Agent

Make = Callable[[], gymnasium.Env[np.ndarray, Any]]

DISCOUNT = 0.9
# Whatever the recipes' own numbers for small environments are.
SMALL: dict[str, Any] = {
    "quiet": True,
    "env_backend": "in-process",
    "num_envs": 8,
    "threads": 1,
    "device": "cpu",
    "precision": "fp32",
    "steps": 1200,
    "batch_size": 64,
    "training_intensity": 64.0,
    "horizon": 0,
    "learning_starts": 100,
    "buffer_size": 5000,
    "gamma": DISCOUNT,
    "n_step": 1,
    "target_update_interval": 20,
    "tau": 1.0,
    "max_grad_norm": 0.0,
    "clip_rewards": False,
    "learning_rate": 2e-2,
    # Where nothing is random, errors vanish, and Adam's steps would become large again without it.
    "adam_epsilon": 1e-4,
}
# Any action, always: what is learned is the value of the best ones all the same.
RANDOM = {"epsilon_start": 1.0, "epsilon_end": 1.0, "optimiser": "adam"}
PLAIN = {"double": False, "dueling": False, "replay": "uniform", "scale_learning_rate": "none", **RANDOM}
EVERYTHING = {"double": True, "dueling": True, "replay": "prioritised", **RANDOM}


def table(shape: tuple[int, ...]) -> nn.Module:
    """A network that is a table: its heads stand on the one-hot states themselves."""
    return nn.Flatten()


def trained(recipe: str, make: Make, path: Path, network: Any = None, **settings: Any) -> Agent:
    run = veldt.train(recipe, env=make, run_dir=path / "run", network=network, **SMALL | settings)
    return veldt.load(run.path, env=make, network=network)


def values(agent: Agent, states: int) -> np.ndarray:
    """Q of every state's every action; of its own action, where actions are real numbers."""
    observation, network = torch.eye(states), agent._network
    with torch.no_grad():
        if agent.spec.action.kind == "box":
            return network(observation, network(observation)).numpy()
        return agent._algorithm.values(network(observation)).numpy()


def best_values() -> np.ndarray:
    """Q* of the chain, by value iteration."""
    best = np.zeros((Chain.LENGTH, 2))
    for _ in range(500):
        value = best.max(-1)
        for state in range(Chain.LENGTH):
            for action in range(2):
                after, reward, over = Chain.move(state, action)
                best[state, action] = reward + (0.0 if over else DISCOUNT * value[after])
    return best


ATOMS = {"value_min": -0.5, "value_max": 1.5, "atoms": 41}
POLYAK = {"target_update_interval": 4, "tau": 0.2}


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        pytest.param("dqn", PLAIN, id="dqn"),
        pytest.param("dqn", PLAIN | {"double": True, "resets": "wait"}, id="dqn, double"),
        pytest.param("dqn", PLAIN | {"dueling": True, "replay": "prioritised", **POLYAK}, id="dqn, dueling"),
        pytest.param("c51", PLAIN | ATOMS, id="c51"),
        pytest.param("rainbow", EVERYTHING | ATOMS, id="rainbow"),
    ],
)
def test_a_chain(recipe: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """Values of the best actions are learned from random actions, across truncations and up to terminations."""
    agent = trained(recipe, Chain, tmp_path, table, **settings)
    np.testing.assert_allclose(values(agent, Chain.LENGTH), best_values(), rtol=0.01)
    best = [agent.act(state, greedy=True) for state in np.eye(Chain.LENGTH, dtype=np.float32)]
    assert best == [1] * Chain.LENGTH


LENGTH = 5
VALUES = {
    "terminated": [sum(DISCOUNT**k for k in range(LENGTH - t)) for t in range(LENGTH)],
    "truncated": [1 / (1 - DISCOUNT)] * LENGTH,
}


@pytest.mark.parametrize("ending", VALUES)
@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("dqn", PLAIN),
        ("rainbow", EVERYTHING | {"value_min": -1.0, "value_max": 12.0, "atoms": 66, "learning_rate": 5e-2}),
        ("ddpg", {"exploration_noise": 1.0}),
    ],
)
def test_returns_over_three_steps(recipe: str, settings: dict[str, Any], ending: str, tmp_path: Path) -> None:
    """In an env where actions have no effect, so that off-policy returns are correct."""
    clock = ClockWithBox if recipe == "ddpg" else Clock
    agent = trained(recipe, lambda: clock(LENGTH, ending), tmp_path, table, **settings | {"n_step": 3})
    learned = values(agent, LENGTH)
    expected = np.broadcast_to(VALUES[ending], learned.T.shape).T
    np.testing.assert_allclose(learned, expected, rtol=0.01)


def test_best_actions_that_are_real_numbers(tmp_path: Path) -> None:
    agent = trained(
        "ddpg",
        Aim,
        tmp_path,
        hidden=(64, 64),
        learning_rate=5e-3,
        actor_learning_rate=2e-3,
        exploration_noise=0.3,
    )
    for context, best in zip(np.eye(3, dtype=np.float32), Aim.BEST, strict=True):
        assert float(agent.act(context, greedy=True)[0]) == pytest.approx(best, abs=0.15)
    np.testing.assert_allclose(values(agent, 3), 0.0, atol=0.05)
