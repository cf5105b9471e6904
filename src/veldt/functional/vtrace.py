"""V-trace on `[T, B]`: value targets and advantages from the actions of another policy (Espeholt et al. 2018).

`discount_TB` and `trace_TB` encode episode ends, as in `returns`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class VTraceReturns(NamedTuple):
    """`target_TB`: targets of V; `advantage_TB`: weights of the policy gradient; `rho_TB`: clipped ratios."""

    target_TB: Tensor
    advantage_TB: Tensor
    rho_TB: Tensor


def vtrace(
    log_ratio_TB: Tensor,
    reward_TB: Tensor,
    value_SB: Tensor,
    discount_TB: Tensor,
    trace_TB: Tensor,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    lambda_: float = 1.0,
) -> VTraceReturns:
    """V-trace (Espeholt et al. 2018, sections 4.1 and 4.2), with the recursion of remark 1.

        ρ_t = min(ρ̄, π(a_t|x_t) / μ(a_t|x_t)),   c_t = λ min(c̄, π(a_t|x_t) / μ(a_t|x_t))          (remark 2 for λ)
        δ_t = ρ_t (r_t + discount_t V(x_{t+1}) - V(x_t))
        v_t = V(x_t) + δ_t + discount_t trace_t c_t (v_{t+1} - V(x_{t+1}))                          (equation 1)
        A_t = ρ_t (r_t + discount_t (λ v_{t+1} + (1 - λ) V(x_{t+1})) - V(x_t))

    The advantage of section 4.2 has λ = 1; the mixture is that of rlax, for which on-policy advantages are those of
    generalised advantage estimation for every λ. Where the trace is 0, the sum of equation 1 ends with δ_t, and the
    mixture in A_t is V(x_{t+1}), because x_{t+1} is the trajectory's last observation. The same holds after the last
    step. With π = μ and ρ̄, c̄ >= 1, v_t is the λ-return: the n-step return if λ is 1. ρ̄ decides which policy V is the
    value of; c̄ and λ only decide how fast V converges.

    Args:
        log_ratio_TB: float [T, B], log π(a_t|x_t) - log μ(a_t|x_t): π is the learner's policy, μ the actor's.
        reward_TB: float [T, B].
        value_SB: float [T+1, B], the learner's V of every observation and of the one after the last step.
        discount_TB: float [T, B], γ, or 0 after a termination.
        trace_TB: float [T, B], 0 at any end of a trajectory and in padding rows.
        rho_bar, c_bar: upper clips of the ratios, more than 0 (the paper has ρ̄ >= c̄).
        lambda_: λ, in [0, 1].

    Returns:
        float [T, B] each. Targets are functions of V: call it without gradient.
    """
    ratio_TB = log_ratio_TB.exp()
    rho_TB = ratio_TB.clamp(max=rho_bar)
    decay_TB = lambda_ * ratio_TB.clamp(max=c_bar) * discount_TB * trace_TB
    delta_TB = rho_TB * (reward_TB + discount_TB * value_SB[1:] - value_SB[:-1])
    # v - V, with a row of zeros after the last step.
    correction_SB = torch.zeros_like(value_SB)
    for t in range(len(delta_TB) - 1, -1, -1):
        torch.addcmul(delta_TB[t], decay_TB[t], correction_SB[t + 1], out=correction_SB[t])
    next_value_TB = value_SB[1:] + lambda_ * trace_TB * correction_SB[1:]
    advantage_TB = rho_TB * (reward_TB + discount_TB * next_value_TB - value_SB[:-1])
    return VTraceReturns(value_SB[:-1] + correction_SB[:-1], advantage_TB, rho_TB)
