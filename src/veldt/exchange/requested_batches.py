"""The batches that a learner has requested from shards: which shard writes which rows, and what has arrived.

    free --request--> pending --every shard has written its rows--> taken --given back--> free

It is the same on one machine and on several; how requests, rows and priorities travel is in `replay` and
`on_ray.replay`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from veldt.replay.batch import ReplayBatch

# Size of an incarnation's range of request numbers: a number identifies the incarnation.
REQUESTS_PER_INCARNATION = 2**32

# Sends new priorities to a shard (its index and its incarnation, the rows' keys int64 [M], the priorities float64 [M]),
# and returns whether it was possible.
SendPriorities = Callable[[int, int, np.ndarray, np.ndarray], bool]


class RequestedBatches:
    """A learner's P preallocated batches, each of which is free, pending, or taken by the learner.

    Args:
        rows: N, of a batch.
        written_SP: what shards have written, int64 [S, P]; see `PendingBatch`.
        incarnation: the learner's. It numbers its requests from a range of its own.
    """

    def __init__(
        self, batches: list[ReplayBatch], rows: int, written_SP: np.ndarray, incarnation: int
    ) -> None:
        self._batches, self._rows, self._written_SP = batches, rows, written_SP
        self._free = deque(range(len(batches)))
        self._pending, self._taken = deque[PendingBatch](), deque[PendingBatch]()
        self._number = incarnation * REQUESTS_PER_INCARNATION
        self.group = RequestBatcher(len(batches))
        self.num_lost = 0  # priorities that were never sent

    @property
    def oldest(self) -> PendingBatch | None:
        """The batch that was requested first of those that are pending."""
        return self._pending[0] if self._pending else None

    def next_request(self, seed: int, mass_S: np.ndarray, incarnation_S: np.ndarray) -> PendingBatch | None:
        """Returns a request for one more batch, which counts once it is added.

        None if there are no free batches for a group of requests, or no rows.
        """
        if not self.group.may_request(len(self._free)) or not mass_S.any():
            return None
        return PendingBatch.shared_out(
            self._free[0], self._number + 1, seed, mass_S, self._rows, incarnation_S
        )

    def add(self, request: PendingBatch) -> None:
        """Adds the request that `next_request` has just returned: its batch is pending."""
        self._free.popleft()
        self._number = request.number
        self._pending.append(request)

    def take_oldest(self) -> ReplayBatch | None:
        """Takes the oldest pending batch, to which no shard writes any more; None, and it is free, if it lacks rows."""
        oldest = self._pending.popleft()
        if not oldest.written_S(self._written_SP).all():
            self._free.append(oldest.batch_index)
            return None
        self._taken.append(oldest)
        return self._batches[oldest.batch_index]

    def part(self, batch_index: int, rows: slice) -> ReplayBatch:
        """Returns these rows of a batch, to be written."""
        return self._batches[batch_index].part(rows)

    def give_back(
        self, priority_N: np.ndarray | None, incarnation_S: np.ndarray, send: SendPriorities
    ) -> None:
        """Frees the oldest batch taken; sends its new priorities, if any, to shards that have not restarted since."""
        taken = self._taken.popleft()
        if priority_N is not None:
            key_N = self._batches[taken.batch_index].key_N
            for shard in taken.asked:
                part, incarnation = taken.part(shard), int(taken.incarnation_S[shard])
                is_alive = incarnation_S[shard] == incarnation
                if not (is_alive and send(shard, incarnation, key_N[part], priority_N[part])):
                    self.num_lost += taken.count(shard)
        self._free.append(taken.batch_index)


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
