"""The trajectory edge by mail: each producer has a window of `depth` slots that are not released yet.

    producer --slot number n, all of its bytes--> consumer --released up to n--> producer

What is not released is kept, and sent again to a consumer that was started again, or that has said nothing for long;
the consumer leaves out what it has had. So nothing committed is lost while its producer lives, and what a consumer has
received survives its producer.
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

_AGAIN_S = 5.0  # without a word of the consumer, until what is not released is sent again


class RaySlotProducer:
    """See `slots.SlotOut`."""

    def __init__(
        self, mail: Transport, edge: str, layouts: Mapping[str, Layout], depth: int, ring: int, to: str
    ) -> None:
        self._mail, self._edge, self._ring, self._to = mail, edge, ring, to
        self._slots = [SharedArrays(layouts, None) for _ in range(depth)]
        self._names = tuple(layouts)
        self._written = self._released = self._sent = 0
        self._sent_to, self._heard_at = mail.life_of(to), time.monotonic()
        mail.listen(edge, self._hear)

    def slot(self, deadline_s: float) -> Arrays | None:
        if not awaited(self._has_room, self._mail.bell, deadline_s):
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
        """What is not sent yet, to the consumer's present life."""
        life, now = self._mail.life_of(self._to), time.monotonic()
        if self._released == self._written:
            self._heard_at = now
        if life != self._sent_to or now - self._heard_at > _AGAIN_S:
            self._sent_to, self._heard_at, self._sent = life, now, self._released
        if life < 0:
            return
        self._sent = max(self._sent, self._released)
        while self._sent < self._written:
            block = self._slots[self._sent % len(self._slots)].block
            self._mail.send(self._to, self._edge, "slot", self._ring, self._sent, self._released, block)
            self._sent += 1

    def _hear(self, letter: Message) -> None:
        life, released = letter.content
        if life == self._mail.life:
            self._released, self._heard_at = max(self._released, released), time.monotonic()


class _Received(NamedTuple):
    life: int
    number: int
    block: np.ndarray


class _Ring:
    """What a consumer knows of one producer."""

    def __init__(self) -> None:
        self.sender, self.life, self.next, self.released = "", -1, 0, 0
        self.full, self.taken = deque[_Received](), deque[tuple[_Received, SharedArrays]]()


class RaySlotConsumer:
    """See `slots.SlotIn`. Producers are served in turn."""

    def __init__(self, mail: Transport, edge: str, layouts: Mapping[str, Layout], rings: int) -> None:
        self._mail, self._edge, self._layouts = mail, edge, layouts
        self._rings, self._next = [_Ring() for _ in range(rings)], 0
        self._free: list[SharedArrays] = []
        mail.listen(edge, self._hear)

    def take(self, deadline_s: float) -> ReceivedSlot | None:
        if not awaited(lambda: any(ring.full for ring in self._rings), self._mail.bell, deadline_s):
            return None
        while not self._rings[self._next % len(self._rings)].full:
            self._next += 1
        number = self._next % len(self._rings)
        self._next = number + 1
        ring = self._rings[number]
        received = ring.full.popleft()
        # What came by mail cannot be written to, and is Ray's: it is given back.
        arrays = self._free.pop() if self._free else SharedArrays(self._layouts, None)
        np.copyto(arrays.block, received.block)
        ring.taken.append((received._replace(block=arrays.block), arrays))
        return ReceivedSlot(number, {name: arrays[name] for name in self._layouts})

    def release(self, ring: int) -> None:
        state = self._rings[ring]
        received, arrays = state.taken.popleft()
        self._free.append(arrays)
        if received.life == state.life:
            state.released = received.number + 1
            self._say_released(state)

    def wait(self, seconds: float) -> None:
        bell = self._mail.bell
        if bell.acquire(True, seconds):
            while bell.acquire(False):  # of what came while nobody waited
                pass

    def _say_released(self, ring: _Ring) -> None:
        self._mail.send(ring.sender, self._edge, "released", ring.life, ring.released)

    def _hear(self, letter: Message) -> None:
        number, first = letter.content[1], letter.content[2]
        ring = self._rings[letter.content[0]]
        if letter.life < ring.life:
            return
        if letter.life > ring.life:
            ring.sender, ring.life = letter.sender, letter.life
            ring.next = ring.released = first
        if number < ring.next:
            self._say_released(ring)
        elif number == ring.next:  # else one before it is still to come
            ring.full.append(_Received(letter.life, number, letter.content[3]))
            ring.next += 1
