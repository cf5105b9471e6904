"""Returns and advantages on `[T, B]`.

Two numbers per step encode every kind of episode end:

    discount_TB  factor on the value of the next observation: γ, or 0 after a termination
    trace_TB     whether the sum continues to the next step: 1, or 0 at any end of a trajectory

A truncated step has discount γ and trace 0: it bootstraps from its final observation, which is the next row.
"""

from __future__ import annotations

import torch
from torch import Tensor


def generalised_advantages(
    reward_TB: Tensor, value_SB: Tensor, discount_TB: Tensor, trace_TB: Tensor, lambda_: float
) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016, equations 11 to 16).

        δ_t = r_t + discount_t V(s_{t+1}) - V(s_t)
        A_t = δ_t + λ discount_t trace_t A_{t+1},   A_T = 0

    Args:
        reward_TB: float [T, B].
        value_SB: float [T+1, B], V of every observation and of the one after the last step.
        discount_TB: float [T, B], see the module's docstring.
        trace_TB: float [T, B].
        lambda_: in [0, 1]; 1 gives n-step returns minus the baseline (A2C's advantage).

    Returns:
        float [T, B]. The value target is the advantage plus V(s_t).
    """
    delta_TB = reward_TB + discount_TB * value_SB[1:] - value_SB[:-1]
    decay_TB = lambda_ * discount_TB * trace_TB
    advantage_TB = torch.empty_like(delta_TB)
    following_B = torch.zeros_like(delta_TB[0])
    for t in range(len(delta_TB) - 1, -1, -1):
        following_B = torch.addcmul(delta_TB[t], decay_TB[t], following_B, out=advantage_TB[t])
    return advantage_TB
