"""What an off-policy algorithm is given to learn from, and what it makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from veldt.algorithms.rollout import Observation


@dataclass(frozen=True)
class Transitions:
    """n-step transitions drawn from a replay buffer; all tensors [N, ...] on the learner's device.

    `reward` is the sum of m <= n discounted rewards (clipped, if the algorithm asks for that), and `discount` what the
    value of `next_observation` counts: γ^m, or 0 after a termination. `weight` corrects for prioritised drawing.
    """

    observation: Observation
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_observation: Observation
    weight: Tensor
    noise: Tensor  # standard normals [3, K] for noisy layers: of the loss, the selection and the target


@dataclass(frozen=True)
class QLearningBatch:
    """Rows to learn from, with targets fixed: `target` is [N], or [N, Z] probabilities of atoms."""

    observation: Observation
    action: Tensor
    target: Tensor
    weight: Tensor
    noise: Tensor  # [1, K]
