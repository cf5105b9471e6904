"""The replay edge by mail: orders to shards, their rows back into the learner's memory.

    learner --priorities by key; order n: count, seed--> shard --rows of order n--> learner's place for that batch
    shard --mass, rows, what was dropped--> learner's ledger

A letter costs both sides as much as a small batch does, so several batches' orders, priorities and rows go together. An
order that goes to a shard's former life is lost with it, and its batch dropped, as on one machine. Lives of the learner
are told apart by the numbers of their orders.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veldt.exchange.replay import SampleRequest, ShardedBatch
from veldt.exchange.sample_requests import ORDERS_PER_LIFE, PendingBatch, RequestBatcher
from veldt.exchange.slots import awaited
from veldt.runtime.on_ray.transport import Message, Transport
from veldt.runtime.shared import Layout, SharedArrays, arrays_in, rows_of

_AGAIN_S = 10.0  # until an order whose rows have not come is sent again
_STATE_S = 0.1  # between two words of a shard on what it holds
_LETTER_BYTES = 2**20

_Said = tuple[int, int, int, int, int]  # number, place, rows, seed, and which life of the shard it is for


class RayReplayServer:
    """A shard's end; see `replay.ReplayOut`."""

    def __init__(self, mail: Transport, edge: str, layouts: Mapping[str, Layout], to: str) -> None:
        self._mail, self._edge, self._layouts, self._to = mail, edge, layouts, to
        self._orders = deque[tuple[SampleRequest, int]]()
        self._blocks: dict[int, np.ndarray] = {}  # of orders that are not carried out yet
        self._done: list[tuple[int, int, np.ndarray]] = []
        self._state = 0.0, 0, 0
        self._said_to, self._said_at = -1, 0.0
        mail.listen(edge, self._hear)

    def state(self, mass: float, rows: int, dropped: int) -> None:
        self._state, now, to = (mass, rows, dropped), time.monotonic(), self._mail.life_of(self._to)
        # With rows, if any are asked for.
        if to != self._said_to or now - self._said_at > _STATE_S:
            self._said_to, self._said_at = to, now
            self._mail.send(self._to, self._edge, "rows", self._state, [])

    def take(self) -> tuple[SampleRequest, int] | None:
        return self._orders.popleft() if self._orders else None

    def done(self, order: SampleRequest, place: int) -> None:
        if order.out is not None:
            self._done.append((order.number, place, self._blocks.pop(order.number)))
        if not self._orders or sum(block.nbytes for *_, block in self._done) > _LETTER_BYTES:
            done, self._done = self._done, []
            if done:
                self._said_at = time.monotonic()
                self._mail.send(self._to, self._edge, "rows", self._state, done)

    def _hear(self, letter: Message) -> None:
        none = np.empty(0)
        counts, keys, priorities, orders = letter.content
        ends = np.cumsum(counts)[:-1]
        for key_N, priority_N in zip(np.split(keys, ends), np.split(priorities, ends), strict=True):
            if len(key_N):
                self._orders.append((SampleRequest(0, 0, None, key_N, priority_N), 0))
        for number, place, count, seed, life in orders:
            if life == self._mail.life and number not in self._blocks:
                layouts = rows_of(self._layouts, count)
                rows = SharedArrays(layouts, None)
                self._blocks[number] = rows.block
                out = {name: rows[name] for name in layouts}
                self._orders.append((SampleRequest(number, seed % 2**64, out, none, none), place))


class _ShardRequests:
    """What a shard is to be sent: new priorities, which come first, and orders."""

    def __init__(self) -> None:
        self.orders: list[_Said] = []
        self.keys: list[np.ndarray] = []
        self.priorities: list[np.ndarray] = []

    def add(self, key_N: np.ndarray, priority_N: np.ndarray) -> None:
        self.keys.append(key_N)
        self.priorities.append(priority_N)

    def content(self) -> tuple[Any, ...]:
        counts = [len(key_N) for key_N in self.keys]
        keys = np.concatenate([np.empty(0, np.int64), *self.keys])
        return counts, keys, np.concatenate([np.empty(0), *self.priorities]), self.orders


class RayReplayClient:
    """The learner's end; see `replay.ReplayIn`."""

    def __init__(
        self,
        mail: Transport,
        edge: str,
        layouts: Mapping[str, Layout],
        rows: int,
        ahead: int,
        shards: Sequence[str],
    ) -> None:
        self._mail, self._edge, self._batch, self._shards = mail, edge, rows, list(shards)
        self._layouts = layouts
        self._places = [
            {name: np.empty(layout.shape, layout.dtype) for name, layout in layouts.items()}
            for _ in range(ahead + 1)
        ]
        self._free, self._under_way = deque(range(ahead + 1)), deque[PendingBatch]()
        self._by_number: dict[int, PendingBatch] = {}
        self._written_SP = np.full((len(shards), ahead + 1), -1, np.int64)
        self._number = (mail.life + 1) * ORDERS_PER_LIFE
        self._mass_S, self._rows_S = np.zeros(len(shards)), np.zeros(len(shards), np.int64)
        self._dropped_S, self._life_S = self._rows_S.copy(), np.full(len(shards), -1, np.int64)
        self._in_use: PendingBatch | None = None
        self._lost = 0  # priorities that never were sent
        self._group = RequestBatcher(ahead + 1)
        self._letters = [_ShardRequests() for _ in shards]
        self._updates = 0  # in letters that are not sent yet
        self._asked_at = time.monotonic()
        self._lock = threading.Lock()  # a place is not given to the next batch while rows are written to it
        mail.listen(edge, self._hear)

    @property
    def rows(self) -> int:
        return int((self._rows_S * self._is_there_S()).sum())

    @property
    def is_empty(self) -> bool:
        return bool(self._is_there_S().all()) and not self.rows

    @property
    def dropped(self) -> int:
        return int(self._dropped_S.sum()) + self._lost

    def order(self, seed: int, deadline_s: float) -> bool:
        life_S = self._life_S.copy()  # first: a shard that begins meanwhile leaves this order out
        mass_S = self._mass_S * self._is_there_S()
        if not self._group.may_order(len(self._free)) or not mass_S.any():
            if self._updates >= self._group.at_once or any(letter.orders for letter in self._letters):
                self._post()
            return False
        self._number += 1
        ordered = PendingBatch.shared_out(
            self._free.popleft(), self._number, seed, mass_S, self._batch, life_S
        )
        with self._lock:
            self._by_number[ordered.number] = ordered
        for shard in ordered.asked:
            self._letters[shard].orders.append(self._said(ordered, shard))
        if not self._under_way:
            self._asked_at = time.monotonic()
        self._under_way.append(ordered)
        return True

    def take(self, deadline_s: float) -> ShardedBatch | None:
        if self._in_use is not None:
            self._free.append(self._in_use.place)
            self._in_use = None
        if not self._under_way:
            return None
        oldest = self._under_way[0]
        if not awaited(
            lambda: oldest.is_settled(self._written_SP, self._now_S()), self._mail.bell, deadline_s
        ):
            self._ask_again(oldest)
            return None
        self._under_way.popleft()
        self._asked_at = time.monotonic()
        with self._lock:
            del self._by_number[oldest.number]
        if not oldest.written_S(self._written_SP).all():
            self._free.append(oldest.place)
            return None
        self._in_use = oldest
        return ShardedBatch(self._places[oldest.place], oldest.part_S, oldest.life_S)

    def update(self, batch: ShardedBatch, priority_N: np.ndarray, deadline_s: float) -> None:
        for shard, name in enumerate(self._shards):
            part = slice(*batch.part_S[shard : shard + 2].tolist())
            if self._mail.life_of(name) != batch.life_S[shard]:
                self._lost += part.stop - part.start
            elif part.stop > part.start:
                self._letters[shard].add(batch.arrays["key"][part].copy(), priority_N[part])
        self._updates += 1

    @staticmethod
    def _said(ordered: PendingBatch, shard: int) -> _Said:
        life = int(ordered.life_S[shard])
        return ordered.number, ordered.place, ordered.count(shard), ordered.seed_of(shard), life

    def _post(self) -> None:
        self._updates = 0
        for shard, letter in enumerate(self._letters):
            if letter.orders or letter.keys:
                self._mail.send(self._shards[shard], self._edge, "work", *letter.content())
                self._letters[shard] = _ShardRequests()

    def _ask_again(self, ordered: PendingBatch) -> None:
        if time.monotonic() - self._asked_at > _AGAIN_S:
            self._asked_at = time.monotonic()
            missing_S = ~ordered.written_S(self._written_SP) & (self._now_S() == ordered.life_S)
            for shard in np.flatnonzero(missing_S).tolist():
                again = _ShardRequests()
                again.orders.append(self._said(ordered, shard))
                self._mail.send(self._shards[shard], self._edge, "work", *again.content())

    def _now_S(self) -> np.ndarray:
        """Lives of the shards that are there, int64 [S]; -1 for none."""
        return np.array([self._mail.life_of(name) for name in self._shards])

    def _is_there_S(self) -> np.ndarray:
        """Whether what is on the ledger is about the shard's present life, bool [S]."""
        return (self._life_S >= 0) & (self._now_S() == self._life_S)

    def _hear(self, letter: Message) -> None:
        shard = self._shards.index(letter.sender)
        state, done = letter.content
        self._mass_S[shard] = 0.0  # whoever looks meanwhile sees nothing, rather than another life's
        self._life_S[shard] = letter.life
        self._mass_S[shard], self._rows_S[shard], self._dropped_S[shard] = state
        for number, place, block in done:
            self._put(shard, number, place, block)

    def _put(self, shard: int, number: int, place: int, block: np.ndarray) -> None:
        with self._lock:
            ordered = self._by_number.get(number)
            if ordered is None:
                return  # its batch was dropped, or it was another life's
            part = slice(*ordered.part_S[shard : shard + 2].tolist())
            layouts = rows_of(self._layouts, part.stop - part.start)
            for name, array in arrays_in(block, layouts).items():
                self._places[place][name][part] = array
            self._written_SP[shard, place] = number
