"""A batch requested from several shards, and each shard's part of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Size of an incarnation's range of request numbers: a number identifies the incarnation.
REQUESTS_PER_INCARNATION = 2**32


class PendingBatch(NamedTuple):
    """A requested batch: shard s writes rows part_s to part_(s+1), if it has not restarted meanwhile.

    The rows are written into the preallocated batch `batch_index`. `part_S` is int64 [S + 1], `incarnation_S` int64
    [S], the shards' incarnations. `written_SP` below is int64 [S, P], the number of the request that each shard has
    last written into each of the P preallocated batches.
    """

    batch_index: int
    number: int
    seed: int
    part_S: np.ndarray
    incarnation_S: np.ndarray

    @classmethod
    def shared_out(
        cls,
        batch_index: int,
        number: int,
        seed: int,
        mass_S: np.ndarray,
        rows: int,
        incarnation_S: np.ndarray,
    ) -> PendingBatch:
        """Returns a request of `rows` rows, split over the shards in proportion to their sampling weight."""
        part_S = np.concatenate([[0], np.cumsum(share_out(mass_S, rows, seed))])
        return cls(batch_index, number, seed, part_S, incarnation_S)

    @property
    def asked(self) -> list[int]:
        """The shards that have any rows of the batch."""
        return np.flatnonzero(np.diff(self.part_S)).tolist()

    def count(self, shard: int) -> int:
        return int(self.part_S[shard + 1] - self.part_S[shard])

    def part(self, shard: int) -> slice:
        """The rows of the batch that are from this shard."""
        return slice(int(self.part_S[shard]), int(self.part_S[shard + 1]))

    def seed_of(self, shard: int) -> int:
        """Returns an int64 seed by which a shard draws its part."""
        state = np.random.SeedSequence([self.seed % 2**64, shard]).generate_state(1, np.uint64)
        return int(state.view(np.int64)[0])

    def written_S(self, written_SP: np.ndarray) -> np.ndarray:
        """Which shards have written all rows requested from them, if any; bool [S]."""
        return (np.diff(self.part_S) == 0) | (written_SP[:, self.batch_index] == self.number)

    def is_settled(self, written_SP: np.ndarray, incarnation_S: np.ndarray) -> bool:
        """Whether every shard has written its rows, or has died since the request."""
        return bool((self.written_S(written_SP) | (incarnation_S != self.incarnation_S)).all())


class RequestBatcher:
    """Groups requests, so that sleeping shards are woken less often.

    A group starts when a quarter of the preallocated batches is free, and fills all free ones.
    """

    def __init__(self, num_batches: int) -> None:
        self.at_once = max(1, num_batches // 4)  # free batches needed to start a group
        self._is_requesting = False

    def may_request(self, free: int) -> bool:
        """Whether to send one more request with `free` batches free; False ends a group."""
        self._is_requesting = free >= (1 if self._is_requesting else self.at_once)
        return self._is_requesting


def share_out(mass_S: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Returns how many of `count` stratified draws fall to each shard, int64 [S]."""
    rng = np.random.default_rng(seed)
    target_N = (np.arange(count) + rng.random(count)) / count * mass_S.sum()
    shard_N = np.searchsorted(np.cumsum(mass_S), target_N, side="right")
    last = int(np.flatnonzero(mass_S)[-1])  # for a target that rounding has made as large as the total
    return np.bincount(np.minimum(shard_N, last), minlength=len(mass_S))
