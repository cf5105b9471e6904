"""Means over valid rows."""

from __future__ import annotations

from torch import Tensor


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
        """`value_N` [N] with 0 in invalid rows."""
        return value_N.masked_fill(self._unused_N, 0.0)

    def mean(self, value_N: Tensor) -> Tensor:
        """The mean of `value_N` over valid rows, []; 0 if there are none."""
        return self.masked(value_N).sum() / self._divisor

    def normalise(self, value_N: Tensor) -> Tensor:
        """`value_N` [N] normalised to mean 0 and variance 1 over valid rows."""
        centred_N = value_N - self.mean(value_N)
        deviation = self.mean(centred_N.square()).sqrt()
        return centred_N / (deviation + 1e-8)
