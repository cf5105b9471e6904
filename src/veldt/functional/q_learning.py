"""Targets and losses of Q-learning, for values and for distributions of returns, per row; and ε of its exploration.

The end of a transition is encoded in its discount: γ^n, or 0 after a termination. A distribution of returns is a vector
of probabilities on Z fixed, equally spaced atoms z (Bellemare et al. 2017). Targets have no gradient.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor


def td_target(reward_N: Tensor, discount_N: Tensor, next_q_NA: Tensor, selector_NA: Tensor) -> Tensor:
    """The target of Q(s, a) (van Hasselt et al. 2016, equation 4).

        y = R + discount Q(s', argmax_a selector(s', a))

    Args:
        reward_N: float [N], the (n-step) reward.
        discount_N: float [N], see the module's docstring.
        next_q_NA: float [N, A], the target network's values of the next observation.
        selector_NA: float [N, A], the values that select the action: the online network's in double Q-learning,
            `next_q_NA` itself in Q-learning (Mnih et al. 2015).

    Returns:
        float [N].
    """
    with torch.no_grad():
        chosen_N1 = selector_NA.argmax(-1, keepdim=True)
        return reward_N + discount_N * next_q_NA.gather(-1, chosen_N1).squeeze(-1)


def huber(error_N: Tensor, delta: float = 1.0) -> Tensor:
    """e²/2 within ±delta and delta (|e| - delta/2) outside: DQN's clipped error as a loss. All float [N]."""
    clipped_N = error_N.abs().clamp(max=delta)
    return clipped_N * (error_N.abs() - 0.5 * clipped_N)


def project(probability_NZ: Tensor, support_Z: Tensor, shifted_NZ: Tensor) -> Tensor:
    """Projects a distribution on shifted atoms onto the support (Bellemare et al. 2017, equation 7, algorithm 1).

    Each atom's probability is split between its two neighbours on the support, in linear proportion to its position;
    atoms outside go to the first or last one. The total is conserved, and so is the mean of atoms within the support.

    Args:
        probability_NZ: float [N, Z].
        support_Z: float [Z], at least two equally spaced atoms, ascending.
        shifted_NZ: float [N, Z], each row's shifted atoms: R + discount z.

    Returns:
        float [N, Z].
    """
    with torch.no_grad():
        last = len(support_Z) - 1
        spacing = (support_Z[-1] - support_Z[0]) / last
        place_NZ = ((shifted_NZ - support_Z[0]) / spacing).clamp_(0.0, float(last))
        # The last atom is always an upper neighbour. Values that are not finite stay so in `upper_share_NZ`.
        lower_NZ = place_NZ.long().clamp_(0, last - 1)
        upper_share_NZ = probability_NZ * (place_NZ - lower_NZ)
        projected_NZ = torch.zeros_like(probability_NZ)
        projected_NZ.scatter_add_(-1, lower_NZ, probability_NZ - upper_share_NZ)
        return projected_NZ.scatter_add_(-1, lower_NZ + 1, upper_share_NZ)


def categorical_td_loss(logits_NZ: Tensor, target_NZ: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of a categorical distribution of returns, and the error for priorities.

    Args:
        logits_NZ: float [N, Z], of the action taken.
        target_NZ: float [N, Z], probabilities (see `project`).

    Returns:
        The cross-entropy -Σ target log p (Bellemare et al. 2017, algorithm 1), float [N]; and KL(target ‖ p) ≥ 0, float
        [N], without gradient (Hessel et al. 2018, section 3: the same loss minus the target's entropy).
    """
    target_NZ = target_NZ.detach()
    cross_entropy_N = -(target_NZ * F.log_softmax(logits_NZ, -1)).sum(-1)
    negative_entropy_N = torch.special.xlogy(target_NZ, target_NZ).sum(-1)
    return cross_entropy_N, (cross_entropy_N.detach() + negative_entropy_N).clamp_(min=0.0)


def expected(logits_NAZ: Tensor, support_Z: Tensor) -> Tensor:
    """Q(s, a) = Σ_i z_i p_i(s, a): from logits float [N, A, Z] and atoms float [Z] to values float [N, A]."""
    return logits_NAZ.softmax(-1) @ support_Z


def annealed(start: float, end: float, steps: int, done: int) -> float:
    """ε after `done` steps: linear from `start` to `end` over `steps`, then `end`."""
    if done >= steps:
        return end
    return start + (end - start) * done / steps


def ladder(base: float, power: float, width: int) -> NDArray[np.float64]:
    """One ε for each of `width` envs, float64 [B] (Horgan et al. 2018, section 4: base 0.4, power 7).

        ε_i = base^(1 + power i / (width - 1))

    The first env has `base` (so does a single env), the last one base^(1 + power).
    """
    return base ** (1.0 + power * np.linspace(0.0, 1.0, width))
