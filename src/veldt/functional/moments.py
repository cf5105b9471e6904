"""Count, mean and variance of a stream, merged batch by batch in float64 (Chan et al. 1983, equations 2.1).

Sums of squares of the stream itself would cancel where the mean is much larger than the deviation. Here every batch is
centred by its own mean, and two batches are merged by the difference of their means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EPSILON = 1e-8  # added to a variance before one divides by its root, as in Gymnasium and Stable-Baselines3


@dataclass(frozen=True)
class Moments:
    """`count` values, each an array [...]: their `mean` and `variance` (of the population), float64 [...].

    Without values the mean is 0 and the variance 1, so that normalising by them changes nothing.
    """

    count: float
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Moments:
        """Returns the moments of no values."""
        return cls(0.0, np.zeros(shape), np.ones(shape))

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """Returns the moments of N values [N, ...] of any dtype."""
        if not len(values):
            return cls.none(values.shape[1:])
        mean = np.asarray(values.mean(0, dtype=np.float64))
        return cls(float(len(values)), mean, np.asarray(np.square(values - mean).mean(0)))

    def merged(self, other: Moments) -> Moments:
        """Returns the moments of the values of both."""
        if not other.count:
            return self
        if not self.count:
            return other
        count = self.count + other.count
        difference = other.mean - self.mean
        between = np.square(difference) * (self.count * other.count / count)
        return Moments(
            count,
            self.mean + difference * (other.count / count),
            (self.variance * self.count + other.variance * other.count + between) / count,
        )

    def numbers(self) -> list[float]:
        """Returns all of it as a list: count, means, variances."""
        return [self.count, *self.mean.ravel().tolist(), *self.variance.ravel().tolist()]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], shape: tuple[int, ...]) -> Moments:
        """Rebuilds moments of values of this shape from `numbers`."""
        size = math.prod(shape)
        mean, variance = np.array(numbers[1 : 1 + size]), np.array(numbers[1 + size : 1 + 2 * size])
        return cls(float(numbers[0]), mean.reshape(shape), variance.reshape(shape))
