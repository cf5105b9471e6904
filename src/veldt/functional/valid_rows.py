"""Means over the rows that a loss may use."""

from __future__ import annotations

from torch import Tensor


class ValidRows:
    """The rows where `valid_N` (float [N], 0 or 1) is 1. The others may hold anything, and get no gradient.

    Attributes:
        count: float [], how many there are.
    """

    def __init__(self, valid_N: Tensor) -> None:
        # Once for all means: a loss of a few rows takes longer to ask for its operations than these take.
        self._unused_N = valid_N <= 0
        self.count = valid_N.sum()
        self._divisor = self.count.clamp(min=1.0)

    def masked(self, value_N: Tensor) -> Tensor:
        """`value_N` [N] with 0 in the other rows."""
        return value_N.masked_fill(self._unused_N, 0.0)

    def mean(self, value_N: Tensor) -> Tensor:
        """The mean of `value_N`, []; 0 if there are no rows."""
        return self.masked(value_N).sum() / self._divisor

    def normalise(self, value_N: Tensor) -> Tensor:
        """`value_N` [N] with mean 0 and variance 1."""
        centred_N = value_N - self.mean(value_N)
        deviation = self.mean(centred_N.square()).sqrt()
        return centred_N / (deviation + 1e-8)
