"""Partition of the parameters among parameter shards, and their assembly by readers.

    shard 0 --publish(version)--> part 0 --+
    shard 1 --publish(version)--> part 1 --+--pull()--> all parameters [P] of a learner, an actor, an evaluator

Each part has a version of its own, the number of its updates. The version of the whole is the minimum: so many updates
are in all parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from veldt.exchange.slots import Arrays
from veldt.exchange.weights import Weights
from veldt.runtime.shared import Layout

PARAMETERS, COUNTS, VERSION = "parameters", "counts", "version"


class ShardCounts(NamedTuple):
    """Counts of a shard, or sums over several: gradients received, those of them discarded as too old, and the
    staleness of all of them in updates, summed."""

    gradients: int = 0
    stale: int = 0
    staleness: int = 0


def split_evenly(total: int, parts: int) -> list[tuple[int, int]]:
    """Returns the bounds (first, end) of `parts` even parts of a vector [total]."""
    return list(itertools.pairwise(np.linspace(0, total, parts + 1).astype(int).tolist()))


def part_layouts(numbers: int) -> dict[str, Layout]:
    """Returns the layouts on the edge of a part of so many parameters."""
    return {PARAMETERS: Layout((numbers,), "float32"), COUNTS: Layout((len(ShardCounts._fields),), "int64")}


def gradient_layouts(numbers: int, groups: int) -> dict[str, Layout]:
    """Returns the layouts of a learner's message to a shard of so many parameters: the gradient, the version of the
    part that it was computed with, and the learning rate of each parameter group, NaN for one that stays."""
    return {
        "gradient": Layout((numbers,), "float32"),
        "base": Layout((1,), "int64"),
        "learning_rate": Layout((groups,), "float64"),
    }


class ShardedParameters:
    """A reader's copy of all parts. `version_S` int64 [S] are their versions, -1 before a part has arrived.

    Args:
        parts: the edge of each part, in order.
        values_P: float32, where the parameters are written.
    """

    def __init__(self, parts: Sequence[Weights], values_P: np.ndarray) -> None:
        self._parts = parts
        self.bounds = split_evenly(len(values_P), len(parts))
        self.version_S = np.full(len(parts), -1, np.int64)
        self._counts_SC = np.zeros((len(parts), len(ShardCounts._fields)), np.int64)
        self._into: list[Arrays] = [
            {PARAMETERS: values_P[first:end], COUNTS: counts_C}
            for (first, end), counts_C in zip(self.bounds, self._counts_SC, strict=True)
        ]
        for part, into in zip(parts, self._into, strict=True):
            part.check(into)

    @property
    def version(self) -> int:
        return int(self.version_S.min())

    @property
    def counts(self) -> ShardCounts:
        """Sums over all parts, as of the last pull."""
        return ShardCounts(*self._counts_SC.sum(0).tolist())

    def pull(self) -> bool:
        """Copies the parts that are newer than its own; returns whether there were any."""
        before_S = self.version_S.copy()
        for shard, (part, into) in enumerate(zip(self._parts, self._into, strict=True)):
            self.version_S[shard] = part.pull_if_newer(int(before_S[shard]), into)
        return bool((self.version_S != before_S).any())


class ShardedWeights:
    """See `Weights`: the parts, under the names of a network's parameters."""

    def __init__(self, parts: Sequence[Weights]) -> None:
        self._parts = parts
        self._whole: ShardedParameters | None = None
        self._values_P = np.empty(0, np.float32)

    def check(self, arrays: Arrays) -> None:
        self._values_P = np.empty(sum(array.size for array in arrays.values()), np.float32)
        self._whole = ShardedParameters(self._parts, self._values_P)

    def publish(self, version: int, arrays: Arrays) -> None:
        raise NotImplementedError("only parameter shards publish their parts")

    def pull_if_newer(self, than: int, into: Arrays) -> int:
        """As in `Weights`; `into` are a network's parameters, in the order of the flat vector."""
        assert self._whole is not None, "checked first"
        self._whole.pull()
        version = self._whole.version
        if version in (than, -1):
            return than
        first = 0
        for array in into.values():
            np.copyto(_as_it_lies(array), self._values_P[first : first + array.size])
            first += array.size
        return version


def _as_it_lies(array: np.ndarray) -> np.ndarray:
    """A view [N] in the order of the memory: the weights of convolutions are channels-last."""
    axes = np.argsort([-stride for stride in array.strides], kind="stable")
    in_order = array.transpose(axes)
    assert in_order.flags.c_contiguous, "so that `reshape` makes no copy"
    return in_order.reshape(-1)
