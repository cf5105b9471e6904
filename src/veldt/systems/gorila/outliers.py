"""Losses far above a learner's usual ones (Nair et al. 2015, section 4.2)."""

from __future__ import annotations

import math

_MEMORY = 1000  # about as many losses are in mean and deviation
_WARM_UP = 100  # losses before any counts as an outlier
_BEYOND = 5.0  # an outlier enters the mean as at most this many deviations above the limit


class Outliers:
    """Running mean and standard deviation of a learner's absolute losses; an outlier lies above mean + `deviations` σ.

    The first 1,000 losses have equal weight; from then on older ones fade: losses grow as values do, and with the first
    ones included for ever, all later losses would be outliers. An outlier enters with its own size, clipped at some
    deviations above the limit: so one outlier does not hide those that follow, mean and deviation are those of all
    losses but the most extreme, and losses that have grown for good become ordinary after some hundred updates.

    Args:
        deviations: 0 means that no loss is an outlier.
    """

    def __init__(self, deviations: float) -> None:
        self._deviations = deviations
        self.seen = self.num_found = 0
        self.mean = self._variance = 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(self._variance)

    def is_outlier(self, loss: float) -> bool:
        """Whether a loss is an outlier among those before it; adds it to them."""
        size, limit = abs(loss), self.mean + self._deviations * self.deviation
        is_outlier = bool(self._deviations) and self.seen >= _WARM_UP and self.deviation > 0 and size > limit
        self.num_found += is_outlier
        self._take(min(size, limit + _BEYOND * self.deviation) if is_outlier else size)
        return is_outlier

    def _take(self, size: float) -> None:
        self.seen += 1
        share = 1.0 / min(self.seen, _MEMORY)
        difference = size - self.mean
        self.mean += share * difference
        self._variance = (1.0 - share) * (self._variance + share * difference**2)
