"""The input of off-policy algorithms: sampled transitions, and the batches made from them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from veldt.algorithms.rollout import Observation


def _none() -> Tensor:
    return torch.zeros(0, 0)


@dataclass(frozen=True)
class Transitions:
    """n-step transitions sampled from a replay buffer; all tensors [N, ...] on the learner's device.

    `action` is as `ActionSpec` stores it: int64 [N] of Discrete actions, float32 [N, D] of a Box, in units in which -1
    and 1 are the bounds. `reward`, float32, is the sum of m <= n discounted rewards (clipped if set). `discount`,
    float32, is the factor on the value of `next_observation`: γ^m, or 0 after a termination. `weight`, float32, is the
    importance weight of prioritised sampling, 1 without it. `noise` are standard normals [3, K] for noisy layers: of
    loss, action selection and target. `row_noise` are standard normals [N, K], K as in `OffPolicy.row_noise`.
    """

    observation: Observation
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_observation: Observation
    weight: Tensor
    noise: Tensor
    row_noise: Tensor = field(default_factory=_none)

    def half_of_rows(self) -> Transitions | None:
        """Returns the first half of the rows; None where there is one row only."""
        return _half(self)


@dataclass(frozen=True)
class QLearningBatch:
    """Rows to learn from, with fixed targets: `target` is [N], or [N, Z] probabilities of atoms.

    `noise` is [1, K], that of the loss; all else is as in `Transitions`.
    """

    observation: Observation
    action: Tensor
    target: Tensor
    weight: Tensor
    noise: Tensor
    row_noise: Tensor = field(default_factory=_none)

    def half_of_rows(self) -> QLearningBatch | None:
        """Returns the first half of the rows; None where there is one row only."""
        return _half(self)

    @classmethod
    def of(cls, transitions: Transitions, target: Tensor) -> Self:
        """Returns the rows of `transitions`, with their targets."""
        return cls(
            transitions.observation,
            transitions.action,
            target,
            transitions.weight,
            transitions.noise[:1],
            transitions.row_noise,
        )


_Batch = TypeVar("_Batch", Transitions, QLearningBatch)


def _half(batch: _Batch) -> _Batch | None:
    rows = len(batch.action)
    if rows == 1:
        return None
    # The noise of noisy layers is for all rows together.
    names = [each.name for each in dataclasses.fields(batch) if each.name != "noise"]
    halved: dict[str, Any] = {name: _first(rows // 2, getattr(batch, name)) for name in names}
    return dataclasses.replace(batch, **halved)


def _first(count: int, value: Any) -> Any:
    """Of an observation or a tensor; one without rows stays as it is."""
    return {name: each[:count] for name, each in value.items()} if isinstance(value, dict) else value[:count]
