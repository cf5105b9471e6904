"""Losses that are far above what a learner is used to (Nair et al. 2015, section 4.2)."""

from __future__ import annotations

import math

_MEMORY = 1000  # losses that mean and deviation are of, about
_WARM_UP = 100  # losses before any can be an outlier
_BEYOND = 5.0  # deviations beyond the limit that an outlier counts for at most


class Outliers:
    """Running mean and standard deviation of a learner's absolute losses, and which lie above mean + `deviations` σ.

    The first 1,000 count alike, and from then on older ones fade: losses grow as values do, and those of the run's
    beginning would make everything that comes later an outlier. An outlier itself counts as what it is, up to some
    deviations beyond the limit: so one does not hide those that follow, mean and deviation stay those of all losses but
    for the most extreme, and losses that have grown for good are ordinary some hundred updates later.

    Args:
        deviations: 0 means that none is.
    """

    def __init__(self, deviations: float) -> None:
        self._deviations = deviations
        self.seen = self.num_found = 0
        self.mean = self._variance = 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(self._variance)

    def is_outlier(self, loss: float) -> bool:
        """Whether it is an outlier among those before it, which it then is one of."""
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
