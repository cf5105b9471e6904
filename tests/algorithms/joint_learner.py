"""One of several learners that share batches, as a process of its own."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import q_tables
import rollouts
import torch
from torch import Tensor, nn

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.base import Algorithm
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.transitions import QLearningBatch
from veldt.exchange.gradients import AllReduce
from veldt.learning.learner import Learner
from veldt.networks.flat import FlatParameters

STEPS, WIDTH = 12, 6


class ByRow(nn.Module):
    """A small network on the numbers of rows."""

    def __init__(self, outputs: int, has_value: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(2 * STEPS * WIDTH, 4), nn.Linear(4, outputs)
        self.value = nn.Linear(4, 1) if has_value else None

    def forward(self, row: Tensor, noise: Tensor | None = None) -> Any:
        features = torch.tanh(self.first(row))
        if self.value is None:
            return self.second(features)
        return self.second(features), self.value(features).squeeze(-1)


def of_rollout(own: A2C | PPO, mine: np.ndarray) -> list[Any]:
    """What a learner with these of the envs learns from, and one of all of them."""
    parts = []
    for seed in range(3):
        rollout, table = rollouts.eventful(np.random.default_rng(seed), STEPS, WIDTH)
        rows = torch.arange(STEPS * WIDTH).view(STEPS, WIDTH)[:, torch.from_numpy(mine)]
        parts.append(own.targets(table, rollout).select(rows.flatten()))
    return parts


def of_replay(mine: np.ndarray) -> list[Any]:
    rows, parts = STEPS * WIDTH, []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        drawn = q_tables.transitions(rng, rows)
        target = torch.from_numpy(rng.normal(size=rows)).float()
        index = torch.arange(rows).view(STEPS, WIDTH)[:, torch.from_numpy(mine)].flatten()
        kept = (tensor[index] for tensor in (drawn.observation, drawn.action, target, drawn.weight))
        parts.append(QLearningBatch(*kept, noise=torch.zeros(1, 0)))
    return parts


def learn(pipe: Connection, name: str, rank: int, count: int, rendezvous_file: Path) -> None:
    """Makes three updates, and sends the bytes of its parameters, float32 [P]."""
    torch.manual_seed(0)
    mine = np.arange(WIDTH)[rank * WIDTH // count : (rank + 1) * WIDTH // count]
    own: Algorithm
    if name == "dqn":
        own = DQN(DQNConfig(), q_tables.DISCRETE)
        network, batches = ByRow(q_tables.ACTIONS, False), of_replay(mine)
    else:
        a2c, ppo = (
            A2C(A2CConfig(), rollouts.ACTION),
            PPO(PPOConfig(normalise_advantages=False), rollouts.ACTION),
        )
        own = a2c if name == "a2c" else ppo
        network, batches = ByRow(rollouts.ACTIONS, True), of_rollout(own, mine)
    parameters = FlatParameters(network)
    learner = Learner(own, network, parameters, AllReduce(rank, count, rendezvous_file, torch.device("cpu")))
    for batch in batches:
        learner.update(batch, 0.0, 1e-2)
    pipe.send_bytes(parameters.fp32_params.numpy().tobytes())
