"""Parameters in parts: how a vector is cut among parameter shards, and the whole as its readers put it together.

    shard 0 --publish(version)--> part 0 --+
    shard 1 --publish(version)--> part 1 --+--pull()--> the whole [P] of a learner, an actor, an evaluator

Each part has a version of its own, the updates that made it. The whole's is the least of them: so many updates are in
all of it.
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
    """Of a shard, or of several together: gradients that came, those of them that were discarded because they were too
    old, and by how many updates all of them were old, added up."""

    gradients: int = 0
    stale: int = 0
    staleness: int = 0


def cut(total: int, parts: int) -> list[tuple[int, int]]:
    """The first and the end of each of so many even parts of a vector [total]."""
    return list(itertools.pairwise(np.linspace(0, total, parts + 1).astype(int).tolist()))


def part_layouts(numbers: int) -> dict[str, Layout]:
    """What the edge of a part of so many parameters carries."""
    return {PARAMETERS: Layout((numbers,), "float32"), COUNTS: Layout((len(ShardCounts._fields),), "int64")}


def gradient_layouts(numbers: int) -> dict[str, Layout]:
    """What a learner sends to the shard of so many parameters: a gradient, the version of the part that it was computed
    with, and the step size."""
    return {
        "gradient": Layout((numbers,), "float32"),
        "base": Layout((1,), "int64"),
        "learning_rate": Layout((1,), "float64"),
    }


class ShardedParameters:
    """What a reader has of all parts. `version_S` int64 [S] are their versions, -1 before anything has come.

    Args:
        parts: the edge of each part, in order.
        values_P: float32, where the parameters are to be.
    """

    def __init__(self, parts: Sequence[Weights], values_P: np.ndarray) -> None:
        self._parts = parts
        self.bounds = cut(len(values_P), len(parts))
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
        """Of all parts together, as of when they were pulled."""
        return ShardCounts(*self._counts_SC.sum(0).tolist())

    def pull(self) -> bool:
        """Takes what is newer than it has; whether anything was."""
        before_S = self.version_S.copy()
        for shard, (part, into) in enumerate(zip(self._parts, self._into, strict=True)):
            self.version_S[shard] = part.pull_if_newer(int(before_S[shard]), into)
        return bool((self.version_S != before_S).any())


class ShardedWeights:
    """See `Weights`: the parts, by the names of those who act."""

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
        """As in `Weights`; `into` are a network's parameters, in the order in which they are laid out flat."""
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
    flat = array.transpose(axes).view()
    flat.shape = (array.size,)  # unlike `reshape`, never a copy
    return flat
