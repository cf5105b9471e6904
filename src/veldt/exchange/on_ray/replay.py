"""The replay edge over the transport: requests to shards, their rows back into the learner's memory.

    learner --priorities by key; request n: count, seed--> shard --rows of request n--> learner's batch
    shard --sampling weight, rows, dropped priorities--> learner's ledger

A message costs both sides as much as a small batch, so requests, priorities and rows of several batches are sent
together. A request to a shard's former incarnation is lost with it, and its batch dropped, as on one machine. Request
numbers identify the learner's incarnation.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veldt.exchange.replay import SampleRequest
from veldt.exchange.requested_batches import PendingBatch, RequestedBatches
from veldt.exchange.slots import awaited
from veldt.replay.batch import ReplayBatch
from veldt.runtime.on_ray.transport import Message, Transport
from veldt.runtime.shared import Layout, SharedArrays, arrays_in, rows_of

_AGAIN_S = 10.0  # until a request whose rows have not arrived is sent again
_STATE_S = 0.1  # between two messages of a shard with its state
_MESSAGE_BYTES = 2**20

# Number, index of the batch, rows, seed, and incarnation of the shard.
_Entry = tuple[int, int, int, int, int]


class RayReplayServer:
    """A shard's end; see `replay.ReplayOut`."""

    def __init__(self, transport: Transport, edge: str, layouts: Mapping[str, Layout], to: str) -> None:
        self._transport, self._edge, self._layouts, self._to = transport, edge, layouts, to
        self._requests = deque[tuple[SampleRequest, int]]()
        self._blocks: dict[int, np.ndarray] = {}  # of requests that are not carried out yet
        self._done: list[tuple[int, int, np.ndarray]] = []
        self._state = 0.0, 0, 0
        self._sent_to, self._sent_at = -1, 0.0
        transport.listen(edge, self._receive)

    def state(self, mass: float, rows: int, dropped: int) -> None:
        self._state = mass, rows, dropped
        now, to = time.monotonic(), self._transport.incarnation_of(self._to)
        # The state is also sent with rows, if any are requested.
        if to != self._sent_to or now - self._sent_at > _STATE_S:
            self._sent_to, self._sent_at = to, now
            self._transport.send(self._to, self._edge, "rows", self._state, [])

    def take(self) -> tuple[SampleRequest, int] | None:
        return self._requests.popleft() if self._requests else None

    def done(self, request: SampleRequest, batch_index: int) -> None:
        if request.out is not None:
            self._done.append((request.number, batch_index, self._blocks.pop(request.number)))
        if not self._requests or sum(block.nbytes for *_, block in self._done) > _MESSAGE_BYTES:
            done, self._done = self._done, []
            if done:
                self._sent_at = time.monotonic()
                self._transport.send(self._to, self._edge, "rows", self._state, done)

    def _receive(self, message: Message) -> None:
        none = np.empty(0)
        counts, keys, priorities, requests = message.content
        ends = np.cumsum(counts)[:-1]
        for key_N, priority_N in zip(np.split(keys, ends), np.split(priorities, ends), strict=True):
            if len(key_N):
                self._requests.append((SampleRequest(0, 0, None, key_N, priority_N), 0))
        for number, batch_index, count, seed, incarnation in requests:
            if incarnation == self._transport.incarnation and number not in self._blocks:
                layouts = rows_of(self._layouts, count)
                rows = SharedArrays(layouts, None)  # one block, which is sent as a whole
                self._blocks[number] = rows.block
                out = ReplayBatch({name: rows[name] for name in layouts})
                self._requests.append((SampleRequest(number, seed % 2**64, out, none, none), batch_index))


class _ShardRequests:
    """The contents of the next message to a shard: new priorities, which come first, and requests."""

    def __init__(self) -> None:
        self.requests: list[_Entry] = []
        self.keys: list[np.ndarray] = []
        self.priorities: list[np.ndarray] = []

    def add(self, key_N: np.ndarray, priority_N: np.ndarray) -> None:
        self.keys.append(key_N)
        self.priorities.append(priority_N)

    def content(self) -> tuple[Any, ...]:
        counts = [len(key_N) for key_N in self.keys]
        keys = np.concatenate([np.empty(0, np.int64), *self.keys])
        return counts, keys, np.concatenate([np.empty(0), *self.priorities]), self.requests


class RayReplayClient:
    """The learner's end; see `replay.ReplayIn`."""

    def __init__(
        self,
        transport: Transport,
        edge: str,
        layouts: Mapping[str, Layout],
        rows: int,
        ahead: int,
        shards: Sequence[str],
    ) -> None:
        self._transport, self._edge, self._shards, self._layouts = transport, edge, list(shards), layouts
        batches = [ReplayBatch.allocate(layouts) for _ in range(ahead + 1)]
        self._written_SP = np.full((len(shards), ahead + 1), -1, np.int64)
        self._requested = RequestedBatches(batches, rows, self._written_SP, transport.incarnation + 1)
        self._by_number: dict[int, PendingBatch] = {}
        self._mass_S, self._rows_S = np.zeros(len(shards)), np.zeros(len(shards), np.int64)
        self._dropped_S, self._incarnation_S = self._rows_S.copy(), np.full(len(shards), -1, np.int64)
        self._messages = [_ShardRequests() for _ in shards]
        self._updates = 0  # updates whose priorities are not sent yet
        self._requested_at = time.monotonic()
        self._lock = threading.Lock()  # a batch must not be reused while rows are written to it
        transport.listen(edge, self._receive)

    @property
    def rows(self) -> int:
        return int((self._rows_S * self._is_there_S()).sum())

    @property
    def is_empty(self) -> bool:
        return bool(self._is_there_S().all()) and not self.rows

    @property
    def dropped(self) -> int:
        return int(self._dropped_S.sum()) + self._requested.num_lost

    def request(self, seed: int, deadline_s: float) -> bool:
        # Incarnations are read first: a shard that restarts meanwhile skips this request.
        incarnation_S = self._incarnation_S.copy()
        pending = self._requested.next_request(seed, self._mass_S * self._is_there_S(), incarnation_S)
        if pending is None:
            if self._updates >= self._requested.group.at_once or any(
                message.requests for message in self._messages
            ):
                self._send_all()
            return False
        with self._lock:
            self._by_number[pending.number] = pending
        for shard in pending.asked:
            self._messages[shard].requests.append(self._entry(pending, shard))
        if self._requested.oldest is None:
            self._requested_at = time.monotonic()
        self._requested.add(pending)
        return True

    def take(self, deadline_s: float) -> ReplayBatch | None:
        oldest = self._requested.oldest
        if oldest is None:
            return None
        if not awaited(
            lambda: oldest.is_settled(self._written_SP, self._now_S()), self._transport.arrived, deadline_s
        ):
            self._request_again(oldest)
            return None
        self._requested_at = time.monotonic()
        with self._lock:
            del self._by_number[oldest.number]
        return self._requested.take_oldest()

    def give_back(self, priority_N: np.ndarray | None) -> None:
        self._requested.give_back(priority_N, self._now_S(), self._add_priorities)
        self._updates += 1

    def _add_priorities(
        self, shard: int, incarnation: int, key_N: np.ndarray, priority_N: np.ndarray
    ) -> bool:
        self._messages[shard].add(key_N.copy(), priority_N)
        return True

    @staticmethod
    def _entry(pending: PendingBatch, shard: int) -> _Entry:
        incarnation = int(pending.incarnation_S[shard])
        return pending.number, pending.batch_index, pending.count(shard), pending.seed_of(shard), incarnation

    def _send_all(self) -> None:
        self._updates = 0
        for shard, message in enumerate(self._messages):
            if message.requests or message.keys:
                self._transport.send(self._shards[shard], self._edge, "work", *message.content())
                self._messages[shard] = _ShardRequests()

    def _request_again(self, pending: PendingBatch) -> None:
        if time.monotonic() - self._requested_at > _AGAIN_S:
            self._requested_at = time.monotonic()
            missing_S = ~pending.written_S(self._written_SP) & (self._now_S() == pending.incarnation_S)
            for shard in np.flatnonzero(missing_S).tolist():
                again = _ShardRequests()
                again.requests.append(self._entry(pending, shard))
                self._transport.send(self._shards[shard], self._edge, "work", *again.content())

    def _now_S(self) -> np.ndarray:
        """Current incarnations of the shards, int64 [S]; -1 for a shard that is down."""
        return np.array([self._transport.incarnation_of(name) for name in self._shards])

    def _is_there_S(self) -> np.ndarray:
        """Whether the ledger's entry is from the shard's current incarnation, bool [S]."""
        return (self._incarnation_S >= 0) & (self._now_S() == self._incarnation_S)

    def _receive(self, message: Message) -> None:
        shard = self._shards.index(message.sender)
        state, done = message.content
        self._mass_S[shard] = 0.0  # a concurrent reader must see no rows rather than another incarnation's
        self._incarnation_S[shard] = message.incarnation
        self._mass_S[shard], self._rows_S[shard], self._dropped_S[shard] = state
        for number, batch_index, block in done:
            self._put(shard, number, batch_index, block)

    def _put(self, shard: int, number: int, batch_index: int, block: np.ndarray) -> None:
        with self._lock:
            pending = self._by_number.get(number)
            if pending is None:
                return  # its batch was dropped, or another incarnation requested it
            rows = ReplayBatch(arrays_in(block, rows_of(self._layouts, pending.count(shard))))
            self._requested.part(batch_index, pending.part(shard)).copy_from(rows)
            self._written_SP[shard, batch_index] = number
