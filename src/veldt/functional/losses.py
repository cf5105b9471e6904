"""PPO's losses per row, and means over valid rows."""

from __future__ import annotations

import torch
from torch import Tensor

# Beyond its exponential float32 soon ends, and an infinite ratio would make the gradient of clipped rows NaN.
_LARGEST_LOG_RATIO = 80.0


def clipped_surrogate(log_ratio_N: Tensor, advantage_N: Tensor, clip: float) -> Tensor:
    """PPO's clipped objective as a loss (Schulman et al. 2017, equation 7): -min(ρ A, clip(ρ, 1-ε, 1+ε) A), ρ = π/μ.

    All float [N]. A ratio above e^80 counts as e^80, without gradient.
    """
    ratio_N = log_ratio_N.clamp(max=_LARGEST_LOG_RATIO).exp()
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


class ValidRows:
    """Masked means. Rows with `valid_N` 1 (float [N]) count; the others (0) may hold any values and get no gradient.

    Attributes:
        count: float [], the number of valid rows.
    """

    def __init__(self, valid_N: Tensor) -> None:
        # Computed once for all means: for a loss of few rows, launching operations takes longer than running them.
        self._unused_N = valid_N <= 0
        self.count = valid_N.sum()
        self._divisor = self.count.clamp(min=1.0)

    def masked(self, value_N: Tensor) -> Tensor:
        """`value_N` [N] with 0 in invalid rows. ValueError for another shape, which torch might broadcast to [N, N]."""
        if value_N.shape != self._unused_N.shape:
            raise ValueError(
                f"a tensor {list(value_N.shape)} has not one value for each of the rows {list(self._unused_N.shape)}"
            )
        return value_N.masked_fill(self._unused_N, 0.0)

    def mean(self, value_N: Tensor) -> Tensor:
        """The mean of `value_N` over valid rows, []; 0 if there are none."""
        return self.masked(value_N).sum() / self._divisor

    def normalise(self, value_N: Tensor) -> Tensor:
        """`value_N` [N] normalised to mean 0 and variance 1 over valid rows."""
        centred_N = value_N - self.mean(value_N)
        deviation = self.mean(centred_N.square()).sqrt()
        return centred_N / (deviation + 1e-8)
