"""Rollouts whose rows are numbered, so that a table stands for the network and each row's gradient can be seen."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.rollout import Rollout
from veldt.envs.spec import ActionSpec
from veldt.functional.distributions import Categorical

ACTIONS = 3
ACTION = ActionSpec("discrete", sizes=(ACTIONS,), start=(0,))
# What can happen in a step. After a trajectory's end comes a reset step row, in which the env is reset.
EVENTS = ("go on", "terminated", "truncated", "life lost", "interrupted")
ENDS = ("terminated", "truncated", "interrupted")


class NumberedRows:
    """Observations that are their own row's number: n = t B + b, and T B + b after the last step."""

    def __init__(self, steps: int, width: int) -> None:
        self._steps, self._width = steps, width

    def rows(self, index_N: Tensor | None) -> Tensor:
        return torch.arange(self._steps * self._width) if index_N is None else index_N

    def last(self) -> Tensor:
        return self._steps * self._width + torch.arange(self._width)


@dataclass(frozen=True)
class Table:
    """A network with its own numbers for each row: logits [N, A] and values [N]."""

    policy: Tensor
    value: Tensor

    def __call__(self, observation: Tensor | dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        assert isinstance(observation, Tensor)
        return self.policy[observation], self.value[observation]

    def learning(self) -> Table:
        """A copy that records gradients."""
        return Table(self.policy.clone().requires_grad_(), self.value.clone().requires_grad_())

    def moved(self, rng: np.random.Generator, by: float) -> Table:
        """A copy as some updates later."""
        noise = torch.from_numpy(rng.normal(0, by, self.policy.shape)).float()
        shift = torch.from_numpy(rng.normal(0, by, self.value.shape)).float()
        return Table(self.policy + noise, self.value + shift)


def make(events: list[list[str]], rng: np.random.Generator) -> tuple[Rollout, Table]:
    """A rollout in which `events[t][b]` happens, unless the step is a reset step, and the network that acted."""
    steps, width = len(events), len(events[0])
    flags = {
        name: np.zeros((steps, width), bool)
        for name in ("terminated", "truncated", "life lost", "interrupted")
    }
    valid = np.ones((steps, width), bool)
    for b in range(width):
        for t in range(steps):
            if t > 0 and any(flags[end][t - 1, b] for end in ENDS):
                valid[t, b] = False
            elif events[t][b] != "go on":
                flags[events[t][b]][t, b] = True
    rows = (steps + 1) * width
    policy = torch.from_numpy(rng.normal(size=(rows, ACTIONS))).float()
    value = torch.from_numpy(rng.normal(0, 2, rows)).float()
    rollout = Rollout(
        observations=NumberedRows(steps, width),
        action=torch.from_numpy(rng.integers(0, ACTIONS, (steps, width))),
        reward=torch.from_numpy(np.where(valid, rng.normal(0, 2, (steps, width)), 0.0)).float(),
        terminated=torch.from_numpy(flags["terminated"]),
        truncated=torch.from_numpy(flags["truncated"]),
        life_lost=torch.from_numpy(flags["life lost"]),
        interrupted=torch.from_numpy(flags["interrupted"]),
        valid=torch.from_numpy(valid),
        extras={
            "policy": policy[: steps * width].view(steps, width, ACTIONS).clone(),
            "value": value[: steps * width].view(steps, width).clone(),
        },
    )
    return rollout, Table(policy, value)


def eventful(rng: np.random.Generator, steps: int = 12, width: int = 5) -> tuple[Rollout, Table]:
    """A rollout with many ends of every kind."""
    return make(rng.choice(EVENTS, (steps, width), p=[0.6, 0.1, 0.1, 0.1, 0.1]).tolist(), rng)


def spoilt(rollout: Rollout) -> Rollout:
    """The same, with extreme numbers in every array of its reset steps.

    Its observation's value is left alone: that is where a truncated trajectory bootstraps from.
    """
    is_reset_step = ~rollout.valid
    reward = torch.where(is_reset_step, 1e30, rollout.reward)
    action = torch.where(is_reset_step, (rollout.action + 1) % ACTIONS, rollout.action)
    policy = torch.where(is_reset_step[..., None], torch.tensor([50.0, -50.0, 0.0]), rollout.extras["policy"])
    assert is_reset_step.any()
    return dataclasses.replace(
        rollout, reward=reward, action=action, extras={**rollout.extras, "policy": policy}
    )


def log_prob(logits: Tensor, action: Tensor) -> Tensor:
    return Categorical(ACTIONS).log_prob(logits, action)
