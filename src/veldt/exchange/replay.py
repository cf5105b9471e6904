"""The replay edge on one machine: the learner requests batches from shards, which write their rows side by side.

    actors ==slots==> shard 0 ==rows==+
    actors ==slots==> shard 1 ==rows==+==> batch [N, ...] ==> learner
                        ^                                        |
                        +--------- requests, priorities ---------+

Each learner incarnation numbers its requests from a range of its own: shards skip requests of former ones.

Each shard writes the total sampling weight of its rows to a ledger. The learner cuts the sum over shards into N equal
pieces with one draw in each, as a single replay buffer would, and requests from each shard the rows that fall to it,
several batches ahead. A batch is complete when every shard has written its part. New priorities go back in the same
rings as requests. Several requests are sent together: a shard that shares its core with actors is woken once for all.

A restarted shard has lost its rows; its `incarnation` on the ledger shows it. Requests to its former incarnation
are not carried out, and batches that lack their rows are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Semaphore
from typing import NamedTuple, Protocol

import numpy as np

from veldt.exchange.requested_batches import REQUESTS_PER_INCARNATION, RequestedBatches
from veldt.exchange.slots import Consumer, Producer, SlotRings, awaited
from veldt.replay.batch import ReplayBatch
from veldt.runtime.shared import Layout, SharedArrays

_SAMPLE, _UPDATE = 0, 1
_LEDGER = {"mass": "float64", "rows": "int64", "incarnation": "int64", "dropped": "int64"}


class ReplayOut(Protocol):
    """A shard's end."""

    def state(self, mass: float, rows: int, dropped: int) -> None:
        """Publishes total sampling weight, rows, and dropped priorities of the shard."""

    def take(self) -> tuple[SampleRequest, int] | None:
        """Returns the next request, if any, and the index of its batch; `done` is called when it is carried out."""

    def done(self, request: SampleRequest, batch_index: int) -> None:
        """Marks the request as carried out: its rows are in `out`."""


class ReplayIn(Protocol):
    """The learner's end. `rows` can be sampled now, over all shards; `dropped` counts priorities that came too late."""

    @property
    def rows(self) -> int: ...

    @property
    def is_empty(self) -> bool:
        """Whether all shards are up, and none holds any rows."""

    @property
    def dropped(self) -> int: ...

    def request(self, seed: int, deadline_s: float) -> bool:
        """Requests one more batch; called until it returns False, which ends a group of requests.

        False if there are no free batches for a group, no rows, or a shard is too slow.
        """

    def take(self, deadline_s: float) -> ReplayBatch | None:
        """Returns the oldest requested batch, valid until it is given back; None if it is not complete in time.

        A batch that no shard can write to any more is dropped.
        """

    def give_back(self, priority_N: np.ndarray | None) -> None:
        """Gives back the oldest batch taken, with new raw priorities float64 [N] of its rows if there are any.

        Priorities of rows that a shard has lost by a restart are dropped, and counted.
        """


class ReplayEnds(Protocol):
    """The edge as roles get it, on every runtime: each opens its own end."""

    def server(self, shard: int) -> ReplayOut: ...

    def client(self) -> ReplayIn: ...


class ReplayEdge:
    """See `ReplayEnds`: the memory that learner and shards share. Picklable while a process is being started.

    Args:
        layouts: of the arrays of a batch, see `batch_layouts`.
        rows: N.
        ahead: batches requested ahead.
        filled: for each shard, the semaphore that wakes it.
    """

    def __init__(
        self,
        layouts: Mapping[str, Layout],
        rows: int,
        ahead: int,
        filled: list[Semaphore],
        context: ForkServerContext,
    ) -> None:
        self.rows, self.shards = rows, len(filled)
        self.num_batches = ahead + 1  # one is in use by the learner
        self._names = tuple(layouts)
        arrays = {
            f"{batch_index}/{name}": layout
            for batch_index in range(self.num_batches)
            for name, layout in layouts.items()
        }
        # One cache line for each shard.
        arrays |= {name: Layout((self.shards, 8), dtype) for name, dtype in _LEDGER.items()}
        # The number of the last request done, for each shard and batch.
        arrays["written"] = Layout((self.shards, self.num_batches), "int64")
        arrays["clients"] = Layout((1,), "int64")
        self._shared = SharedArrays(arrays, context)
        request = {
            "head": Layout((7,), "int64"),
            "key": Layout((rows,), "int64"),
            "priority": Layout((rows,), "float64"),
        }
        # A shard has at most a request and priorities of each batch to carry out, so that its ring has room for them.
        self.requests = [SlotRings(request, 1, 2 * self.num_batches, context, wakes) for wakes in filled]
        self.done = context.Semaphore(0)

    def server(self, shard: int) -> ReplayServer:
        return ReplayServer(self, shard)

    def client(self) -> ReplayClient:
        return ReplayClient(self)

    def ledger(self, name: str) -> np.ndarray:
        """One entry of the shards' ledger, [S]: "mass" float64; "rows", "incarnation" and "dropped" int64."""
        return self._shared[name][:, 0]

    @property
    def written_SP(self) -> np.ndarray:
        """The number of the last request that each shard has carried out into each batch, int64 [S, P]."""
        return self._shared["written"]

    @property
    def clients_1(self) -> np.ndarray:
        """Number of learner incarnations so far, int64 [1]."""
        return self._shared["clients"]

    def batches(self) -> list[ReplayBatch]:
        """Returns the preallocated batches, which all ends share."""
        return [
            ReplayBatch({name: self._shared[f"{batch_index}/{name}"] for name in self._names})
            for batch_index in range(self.num_batches)
        ]


class SampleRequest(NamedTuple):
    """Asks a shard for rows drawn by `seed` into `out`; where `out` is None, brings new priorities."""

    number: int
    seed: int
    out: ReplayBatch | None
    key_N: np.ndarray
    priority_N: np.ndarray


class ReplayServer:
    """See `ReplayOut`."""

    def __init__(self, edge: ReplayEdge, shard: int) -> None:
        self._edge, self._shard = edge, shard
        self._requests, self._batches = Consumer(edge.requests[shard]), edge.batches()
        self._mass_S, self._rows_S, self._dropped_S = map(edge.ledger, ("mass", "rows", "dropped"))
        self._clients_1, self._written_SP = edge.clients_1, edge.written_SP
        self._mass_S[shard] = self._rows_S[shard] = 0
        incarnation_S = edge.ledger("incarnation")
        incarnation_S[shard] += 1
        self._incarnation = int(incarnation_S[shard])

    def state(self, mass: float, rows: int, dropped: int) -> None:
        shard = self._shard
        self._mass_S[shard], self._rows_S[shard], self._dropped_S[shard] = mass, rows, dropped

    def take(self) -> tuple[SampleRequest, int] | None:
        while True:
            received = self._requests.take(0.0)
            if received is None:
                return None
            kind, batch_index, first, count, number, incarnation, seed = received.arrays["head"].tolist()
            is_outdated = kind == _SAMPLE and number // REQUESTS_PER_INCARNATION != self._clients_1[0]
            if incarnation == self._incarnation and not is_outdated:
                break
            self._requests.release(0)
        key_N, priority_N = received.arrays["key"][:count], received.arrays["priority"][:count]
        out = self._batches[batch_index].part(slice(first, first + count)) if kind == _SAMPLE else None
        return SampleRequest(number, seed % 2**64, out, key_N, priority_N), batch_index

    def done(self, request: SampleRequest, batch_index: int) -> None:
        if request.out is not None:
            self._written_SP[self._shard, batch_index] = request.number
            self._edge.done.release()
        self._requests.release(0)


class ReplayClient:
    """See `ReplayIn`."""

    def __init__(self, edge: ReplayEdge) -> None:
        self._edge = edge
        self._requests = [Producer(rings, 0) for rings in edge.requests]
        edge.clients_1[0] += 1
        self._mass_S, self._rows_S, self._dropped_S = map(edge.ledger, ("mass", "rows", "dropped"))
        self._incarnation_S, self._written_SP = edge.ledger("incarnation"), edge.written_SP
        self._requested = RequestedBatches(
            edge.batches(), edge.rows, self._written_SP, int(edge.clients_1[0])
        )

    @property
    def rows(self) -> int:
        return int(self._rows_S.sum())

    @property
    def is_empty(self) -> bool:
        return bool((self._incarnation_S > 0).all()) and not self.rows

    @property
    def dropped(self) -> int:
        return int(self._dropped_S.sum()) + self._requested.num_lost

    def request(self, seed: int, deadline_s: float) -> bool:
        # Incarnations are read first: a shard that restarts meanwhile skips this request.
        incarnation_S = self._incarnation_S.copy()
        pending = self._requested.next_request(seed, self._mass_S.copy(), incarnation_S)
        if pending is None:
            return False
        asked = pending.asked
        # All shards or none: a shard asked for a batch that is then not made would write into another batch's arrays.
        if any(self._requests[shard].slot(deadline_s) is None for shard in asked):
            return False
        self._requested.add(pending)
        for shard in asked:
            first, count = pending.part_S[shard], pending.count(shard)
            head = (_SAMPLE, pending.batch_index, first, count, pending.number, incarnation_S[shard])
            self._send(shard, (*head, pending.seed_of(shard)), deadline_s)
        return True

    def take(self, deadline_s: float) -> ReplayBatch | None:
        oldest = self._requested.oldest
        if oldest is None or not awaited(
            lambda: oldest.is_settled(self._written_SP, self._incarnation_S), self._edge.done, deadline_s
        ):
            return None
        return self._requested.take_oldest()

    def give_back(self, priority_N: np.ndarray | None) -> None:
        self._requested.give_back(priority_N, self._incarnation_S, self._send_priorities)

    def _send_priorities(
        self, shard: int, incarnation: int, key_N: np.ndarray, priority_N: np.ndarray
    ) -> bool:
        head = (_UPDATE, 0, 0, len(key_N), 0, incarnation, 0)
        return self._send(shard, head, 0.0, key_N, priority_N)

    def _send(
        self,
        shard: int,
        head: tuple[int, ...],
        deadline_s: float,
        key_N: np.ndarray | None = None,
        priority_N: np.ndarray | None = None,
    ) -> bool:
        slot = self._requests[shard].slot(deadline_s)
        if slot is None:
            return False
        slot["head"][:] = head
        if key_N is not None and priority_N is not None:
            slot["key"][: len(key_N)], slot["priority"][: len(key_N)] = key_N, priority_N
        self._requests[shard].commit(wakes=priority_N is None)  # after priorities, requests wake the shard
        return True
