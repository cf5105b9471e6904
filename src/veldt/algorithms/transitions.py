"""The input of off-policy algorithms: sampled transitions, and the batches made from them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from veldt.algorithms.rollout import Observation


def _none() -> Tensor:
    return torch.zeros(0, 0)


@dataclass(frozen=True)
class Transitions:
    """n-step transitions sampled from a replay buffer; all tensors [N, ...] on the learner's device.

    `reward` is the sum of m <= n discounted rewards (clipped if set). `discount` is the factor on the value of
    `next_observation`: γ^m, or 0 after a termination. `weight` is the importance weight of prioritised sampling.
    """

    observation: Observation
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_observation: Observation
    weight: Tensor
    noise: Tensor  # standard normals [3, K] for noisy layers: of loss, action selection and target
    row_noise: Tensor = field(default_factory=_none)  # standard normals [N, K], K as in `OffPolicy.row_noise`


@dataclass(frozen=True)
class QLearningBatch:
    """Rows to learn from, with fixed targets: `target` is [N], or [N, Z] probabilities of atoms."""

    observation: Observation
    action: Tensor
    target: Tensor
    weight: Tensor
    noise: Tensor  # [1, K]
    row_noise: Tensor = field(default_factory=_none)  # [N, K], of `Transitions`
