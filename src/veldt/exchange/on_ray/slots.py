"""The trajectory edge over the transport: each producer has a window of `depth` slots that are not released yet.

    producer --slot number n, all of its bytes--> consumer --released up to n--> producer

The producer keeps slots until they are released, and sends them again to a restarted consumer, or to one that has sent
nothing for long; the consumer skips slots that it has received before. So no committed slot is lost while its producer
is up, and slots that a consumer has received survive their producer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from veldt.exchange.slots import Arrays, ReceivedSlot, awaited
from veldt.runtime.on_ray.transport import Message, Transport
from veldt.runtime.shared import Layout, SharedArrays

_AGAIN_S = 5.0  # without a message of the consumer, until slots that are not released are sent again


class RaySlotProducer:
    """See `slots.SlotOut`."""

    def __init__(
        self, transport: Transport, edge: str, layouts: Mapping[str, Layout], depth: int, ring: int, to: str
    ) -> None:
        self._transport, self._edge, self._ring, self._to = transport, edge, ring, to
        self._slots = [SharedArrays(layouts, None) for _ in range(depth)]
        self._names = tuple(layouts)
        self._written = self._released = self._sent = 0
        self._sent_to, self._received_at = transport.incarnation_of(to), time.monotonic()
        transport.listen(edge, self._receive)

    def slot(self, deadline_s: float) -> Arrays | None:
        if not awaited(self._has_room, self._transport.arrived, deadline_s):
            return None
        arrays = self._slots[self._written % len(self._slots)]
        return {name: arrays[name] for name in self._names}

    def commit(self) -> None:
        self._written += 1
        self._send()

    def _has_room(self) -> bool:
        self._send()
        return self._written - self._released < len(self._slots)

    def _send(self) -> None:
        """Sends slots that are not sent yet to the consumer's current incarnation."""
        incarnation, now = self._transport.incarnation_of(self._to), time.monotonic()
        if self._released == self._written:
            self._received_at = now
        if incarnation != self._sent_to or now - self._received_at > _AGAIN_S:
            self._sent_to, self._received_at, self._sent = incarnation, now, self._released
        if incarnation < 0:
            return
        self._sent = max(self._sent, self._released)
        while self._sent < self._written:
            block = self._slots[self._sent % len(self._slots)].block
            self._transport.send(self._to, self._edge, "slot", self._ring, self._sent, self._released, block)
            self._sent += 1

    def _receive(self, message: Message) -> None:
        incarnation, released = message.content
        if incarnation == self._transport.incarnation:
            self._released, self._received_at = max(self._released, released), time.monotonic()


class _Received(NamedTuple):
    incarnation: int
    number: int
    block: np.ndarray


class _Ring:
    """A consumer's state of one producer."""

    def __init__(self) -> None:
        self.sender, self.incarnation, self.next, self.released = "", -1, 0, 0
        self.full, self.taken = deque[_Received](), deque[tuple[_Received, SharedArrays]]()


class RaySlotConsumer:
    """See `slots.SlotIn`. Producers are served in turn."""

    def __init__(self, transport: Transport, edge: str, layouts: Mapping[str, Layout], rings: int) -> None:
        self._transport, self._edge, self._layouts = transport, edge, layouts
        self._rings, self._next = [_Ring() for _ in range(rings)], 0
        self._free: list[SharedArrays] = []
        transport.listen(edge, self._receive)

    def take(self, deadline_s: float) -> ReceivedSlot | None:
        if not awaited(lambda: any(ring.full for ring in self._rings), self._transport.arrived, deadline_s):
            return None
        while not self._rings[self._next % len(self._rings)].full:
            self._next += 1
        number = self._next % len(self._rings)
        self._next = number + 1
        ring = self._rings[number]
        received = ring.full.popleft()
        # Received blocks are read-only, in Ray's object store: their contents are copied, and the blocks freed.
        arrays = self._free.pop() if self._free else SharedArrays(self._layouts, None)
        np.copyto(arrays.block, received.block)
        ring.taken.append((received._replace(block=arrays.block), arrays))
        return ReceivedSlot(number, {name: arrays[name] for name in self._layouts})

    def release(self, ring: int) -> None:
        state = self._rings[ring]
        received, arrays = state.taken.popleft()
        self._free.append(arrays)
        if received.incarnation == state.incarnation:
            state.released = received.number + 1
            self._send_released(state)

    def wait(self, seconds: float) -> None:
        arrived = self._transport.arrived
        if arrived.acquire(True, seconds):
            while arrived.acquire(False):  # releases from before the wait
                pass

    def _send_released(self, ring: _Ring) -> None:
        self._transport.send(ring.sender, self._edge, "released", ring.incarnation, ring.released)

    def _receive(self, message: Message) -> None:
        number, first = message.content[1], message.content[2]
        ring = self._rings[message.content[0]]
        if message.incarnation < ring.incarnation:
            return
        if message.incarnation > ring.incarnation:
            ring.sender, ring.incarnation = message.sender, message.incarnation
            ring.next = ring.released = first
        if number < ring.next:
            self._send_released(ring)
        elif number == ring.next:  # a later one is dropped, and sent again: an earlier one has not arrived
            ring.full.append(_Received(message.incarnation, number, message.content[3]))
            ring.next += 1
