"""A batch that is ordered of several shards, and what each of them is asked for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ORDERS_PER_LIFE = 2**32  # at the most: a number says whose order it is


class PendingBatch(NamedTuple):
    """A batch on its way: shard s writes rows part_s to part_(s+1) of `place`, if it still is in the life it was in.

    `part_S` is int64 [S + 1], `life_S` int64 [S]. What "has written" means is int64 [S, P], the number of the order
    that each shard has last written at each place.
    """

    place: int
    number: int
    seed: int
    part_S: np.ndarray
    life_S: np.ndarray

    @classmethod
    def shared_out(
        cls, place: int, number: int, seed: int, mass_S: np.ndarray, rows: int, life_S: np.ndarray
    ) -> PendingBatch:
        """`rows` rows, of the shards in proportion to their mass."""
        part_S = np.concatenate([[0], np.cumsum(share_out(mass_S, rows, seed))])
        return cls(place, number, seed, part_S, life_S)

    @property
    def asked(self) -> list[int]:
        """The shards of which there are to be any rows."""
        return np.flatnonzero(np.diff(self.part_S)).tolist()

    def count(self, shard: int) -> int:
        return int(self.part_S[shard + 1] - self.part_S[shard])

    def seed_of(self, shard: int) -> int:
        """An int64, by which a shard draws its part."""
        state = np.random.SeedSequence([self.seed % 2**64, shard]).generate_state(1, np.uint64)
        return int(state.view(np.int64)[0])

    def written_S(self, written_SP: np.ndarray) -> np.ndarray:
        """Which shards have written all that they were asked for, if anything; bool [S]."""
        return (np.diff(self.part_S) == 0) | (written_SP[:, self.place] == self.number)

    def is_settled(self, written_SP: np.ndarray, life_S: np.ndarray) -> bool:
        """Whether every shard has written its rows, or has died since it was asked for them."""
        return bool((self.written_S(written_SP) | (life_S != self.life_S)).all())


class RequestBatcher:
    """Orders go together, so that sleepers are woken less often: when a quarter of all `places` is free, for all that
    are."""

    def __init__(self, places: int) -> None:
        self.at_once = max(1, places // 4)  # places that have to be free before the next orders begin
        self._is_ordering = False

    def may_order(self, free: int) -> bool:
        """Whether one more is to be ordered now that `free` places are; no is the end of a group."""
        self._is_ordering = free >= (1 if self._is_ordering else self.at_once)
        return self._is_ordering


def share_out(mass_S: np.ndarray, count: int, seed: int) -> np.ndarray:
    """How many of `count` stratified draws fall to each shard, int64 [S]."""
    rng = np.random.default_rng(seed)
    target_N = (np.arange(count) + rng.random(count)) / count * mass_S.sum()
    shard_N = np.searchsorted(np.cumsum(mass_S), target_N, side="right")
    last = int(np.flatnonzero(mass_S)[-1])  # a target that rounding has made as large as the total
    return np.bincount(np.minimum(shard_N, last), minlength=len(mass_S))
