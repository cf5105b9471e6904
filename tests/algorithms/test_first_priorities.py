"""First priorities of an actor equal those of a learner with the same network."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from q_tables import ACTIONS, DISCRETE, table, transitions

from veldt.algorithms.c51 import C51, C51Config, Rainbow, RainbowConfig
from veldt.algorithms.dqn import DQN, DQNConfig

ROWS, ATOMS = 24, 11
C51S = {"atoms": ATOMS, "value_min": -3.0, "value_max": 3.0}


@pytest.mark.parametrize(
    ("make", "config", "atoms"),
    [(DQN, DQNConfig(double=False), ()), (DQN, DQNConfig(double=True), ()), (C51, C51Config(**C51S), (ATOMS,)),
     (Rainbow, RainbowConfig(**C51S), (ATOMS,))],
)  # fmt: skip
def test_first_priorities_equal_those_of_a_learner(make: Any, config: Any, atoms: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    algorithm, drawn = make(config, DISCRETE), transitions(rng, ROWS)
    network = table(rng, ROWS, *atoms)
    explored = torch.where(torch.arange(ROWS) % 2 == 0, drawn.action, -1)
    action, here = algorithm.act_with_values(network, drawn.observation, explored[:, None].float())
    greedy, _ = algorithm.act(network, drawn.observation, torch.full((ROWS, 1), -1.0))
    assert torch.equal(action, torch.where(explored >= 0, explored, greedy))
    drawn = dataclasses.replace(drawn, action=action)
    _, there = algorithm.act_with_values(network, drawn.next_observation, torch.full((ROWS, 1), -1.0))
    own = algorithm.first_priorities(here["taken"], drawn.reward, drawn.discount, there["best"])
    batch = algorithm.targets(network, network, drawn)
    learners = algorithm.loss(network.learning(), batch, 0.0).priority
    torch.testing.assert_close(own, learners)
    assert len(set(action.tolist())) == ACTIONS and (own > 0.01).any()
