"""Running statistics of the data of all learners: by all-gather, or in memory that independent learners share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from veldt.exchange.gradients import GradientEdge
from veldt.exchange.shared_statistics import SharedStatistics
from veldt.functional.moments import Moments

# Whose statistics: of each normalised field of the observations, and of the running return.
OBSERVATIONS, REWARDS = "observations", "rewards"


class RunningStatistics(Protocol):
    """Adds a learner's new data to the statistics."""

    def with_new(self, name: str, own: Sequence[Moments], new: Sequence[Moments]) -> list[Moments]:
        """Returns the moments of all data so far, including the new data of this learner.

        Args:
            name: OBSERVATIONS or REWARDS.
            own: what the last call returned, or what a checkpoint holds.
            new: moments of the data that this learner adds.
        """


class SynchronisedStatistics:
    """Merges the new data of all learners in the order of their ranks: all have the same statistics, bit for bit.

    Args:
        edge: to the other learners, all of which call `with_new` at the same time.
    """

    def __init__(self, edge: GradientEdge) -> None:
        self._edge = edge

    def with_new(self, name: str, own: Sequence[Moments], new: Sequence[Moments]) -> list[Moments]:
        of_all = [Moments.none(moments.mean.shape) for moments in new]
        for numbers in self._edge.all_gather(numbers_of(new)):
            of_all = _merged(of_all, _moments_of(numbers, new))
        return _merged(own, of_all)


class SharedRunningStatistics:
    """Adds to statistics in shared memory, in the order in which the learners come.

    Args:
        heartbeat: called while another learner adds.
    """

    def __init__(self, shared: SharedStatistics, heartbeat: Callable[[], None]) -> None:
        self._shared, self._heartbeat = shared, heartbeat

    def with_new(self, name: str, own: Sequence[Moments], new: Sequence[Moments]) -> list[Moments]:
        def change(numbers: np.ndarray) -> list[float]:
            return numbers_of(_merged(_moments_of(numbers.tolist(), new), new))

        return _moments_of(self._shared.update(name, change, self._heartbeat).tolist(), new)


def numbers_of(moments: Sequence[Moments]) -> list[float]:
    """Returns all of them as one list."""
    return list(itertools.chain(*(each.numbers() for each in moments)))


def _moments_of(numbers: Sequence[float], like: Sequence[Moments]) -> list[Moments]:
    """Rebuilds from `numbers_of` moments of values of the same shapes as `like`."""
    rest = iter(numbers)
    return [
        Moments.of_numbers(list(itertools.islice(rest, len(each.numbers()))), each.mean.shape)
        for each in like
    ]


def _merged(some: Sequence[Moments], others: Sequence[Moments]) -> list[Moments]:
    return [one.merged(other) for one, other in zip(some, others, strict=True)]
