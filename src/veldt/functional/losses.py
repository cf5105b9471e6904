"""PPO's losses, per row."""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_surrogate(log_ratio_N: Tensor, advantage_N: Tensor, clip: float) -> Tensor:
    """PPO's clipped objective as a loss (Schulman et al. 2017, equation 7): -min(ρ A, clip(ρ, 1-ε, 1+ε) A), ρ = π/μ.

    All float [N].
    """
    ratio_N = log_ratio_N.exp()
    return -torch.minimum(ratio_N * advantage_N, ratio_N.clamp(1.0 - clip, 1.0 + clip) * advantage_N)


def clipped_value_error(value_N: Tensor, old_value_N: Tensor, target_N: Tensor, clip: float) -> Tensor:
    """Squared error of the value, or of the value clipped to within `clip` of its old value, whichever is larger.

    As in OpenAI's ppo2 (it is not in the paper). All float [N].
    """
    clipped_N = old_value_N + (value_N - old_value_N).clamp(-clip, clip)
    return torch.maximum((value_N - target_N).square(), (clipped_N - target_N).square())


def approximate_kl(log_ratio_N: Tensor) -> Tensor:
    """KL(old ‖ new) per row from log ρ of old actions: (ρ - 1) - log ρ, unbiased and never negative."""
    return log_ratio_N.exp() - 1.0 - log_ratio_N
