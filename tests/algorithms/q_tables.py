"""Transitions between numbered states, and tables in place of networks, so that each number's gradient can be seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.transitions import Transitions
from veldt.envs.spec import ActionSpec

ACTIONS = 4
DISCRETE = ActionSpec("discrete", sizes=(ACTIONS,), start=(0,))


@dataclass(frozen=True)
class Table:
    """What a network says of each state, [S, A] or [S, A, Z]; `noises` are those it was given, None for none."""

    output: Tensor
    noises: list[Tensor | None] = field(default_factory=list)

    def __call__(self, observation: Tensor | dict[str, Tensor], noise: Tensor | None = None) -> Tensor:
        assert isinstance(observation, Tensor)
        self.noises.append(noise)
        return self.output[observation]

    def learning(self) -> Table:
        """A copy that records gradients."""
        return Table(self.output.clone().requires_grad_())


def table(rng: np.random.Generator, rows: int, *atoms: int, spread: float = 2.0) -> Table:
    """One for the states of `transitions`, with random numbers."""
    return Table(torch.from_numpy(rng.normal(0.0, spread, (2 * rows, ACTIONS, *atoms))).float())


def transitions(rng: np.random.Generator, rows: int, noise: int = 0) -> Transitions:
    """Row n leads from state n to state `rows` + n, every fourth to an end; the weights are all different."""
    discount = np.where(np.arange(rows) % 4 == 3, 0.0, 0.9**3)
    return Transitions(
        observation=torch.arange(rows),
        action=torch.from_numpy(rng.integers(0, ACTIONS, rows)),
        reward=torch.from_numpy(rng.normal(0.0, 2.0, rows)).float(),
        discount=torch.from_numpy(discount).float(),
        next_observation=rows + torch.arange(rows),
        weight=torch.from_numpy(rng.uniform(0.1, 1.0, rows)).float(),
        noise=torch.from_numpy(rng.normal(size=(3, noise))).float(),
    )


def same(noises: list[Tensor | None], expected: list[Tensor]) -> bool:
    pairs = zip(noises, expected, strict=True)
    return all(noise is not None and torch.equal(noise, other) for noise, other in pairs)


def dqn(**settings: Any) -> DQN:
    return DQN(DQNConfig(**settings), DISCRETE)
