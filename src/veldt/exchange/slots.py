"""The edge of slots: a bounded ring of them, preallocated, for each producer, emptied by one consumer.

    actor --slot(), commit()--> ring 0 --+
    actor --slot(), commit()--> ring 1 --+--take(), release()--> replay shard, or learner

Slots hold trajectories, gradients or requests. Data stays where it was written; only counts are updated. Each of a
ring's two counts is written by one side only, so a process may be killed at any moment: a slot that was not committed
is lost, and the restarted process continues from the counts. Semaphores only wake: a process that wakes, or has slept
for long, reads the counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Semaphore
from typing import NamedTuple, Protocol

import numpy as np

from veldt.runtime.shared import Layout, SharedArrays

_POLL_S = 0.25  # seconds between reads of the counts, in case a wake-up was lost with a process
_WRITTEN, _READ = 0, 1

Arrays = Mapping[str, np.ndarray]


class SlotOut(Protocol):
    """The producer's end."""

    def slot(self, deadline_s: float) -> Arrays | None:
        """Returns the arrays of the next free slot, the same until `commit`; None if none became free in time."""

    def commit(self) -> None:
        """Hands the slot over to the consumer."""


class ReceivedSlot(NamedTuple):
    """A full slot: its producer's ring, and its arrays, which the consumer may use until it releases the slot."""

    ring: int
    arrays: Arrays


class SlotIn(Protocol):
    """The consumer's end."""

    def take(self, deadline_s: float) -> ReceivedSlot | None:
        """Returns the oldest full slot of the next producer that has one; None if none arrived in time."""

    def release(self, ring: int) -> None:
        """Gives back the oldest slot taken from this producer."""

    def wait(self, seconds: float) -> None:
        """Sleeps until a slot may have arrived, or for so long."""


class Slots(Protocol):
    """The edge as roles get it, on every runtime: each opens its own end."""

    def producer(self, ring: int) -> SlotOut: ...

    def consumer(self) -> SlotIn: ...


class SlotRings:
    """See `Slots`: `count` rings of `depth` slots each, in shared memory. Picklable while a process is being started.

    Args:
        filled: semaphore released when a slot is filled, for a consumer that also waits for other things.
    """

    def __init__(
        self,
        layouts: Mapping[str, Layout],
        count: int,
        depth: int,
        context: ForkServerContext,
        filled: Semaphore | None = None,
    ) -> None:
        self.count, self.depth = count, depth
        self._names = tuple(layouts)
        slots = {
            f"{ring}/{index}/{name}": layout
            for ring in range(count)
            for index in range(depth)
            for name, layout in layouts.items()
        }
        # One cache line for each count.
        self._shared = SharedArrays({"counts": Layout((count, 2, 8), "int64")} | slots, context)
        self.filled = filled or context.Semaphore(0)
        self._freed = [context.Semaphore(0) for _ in range(count)]

    def producer(self, ring: int) -> Producer:
        return Producer(self, ring)

    def consumer(self) -> Consumer:
        return Consumer(self)

    @property
    def waiting(self) -> np.ndarray:
        """Number of full slots of each ring, int64 [count]."""
        counts = self._shared["counts"][:, :, 0]
        return counts[:, _WRITTEN] - counts[:, _READ]

    def arrays(self, ring: int, number: int) -> Arrays:
        """Returns the arrays of slot `number`, counted over all slots that went through this ring."""
        index = number % self.depth
        return {name: self._shared[f"{ring}/{index}/{name}"] for name in self._names}


class Producer:
    """See `SlotOut`."""

    def __init__(self, rings: SlotRings, ring: int) -> None:
        self._rings, self._ring = rings, ring
        self._counts = rings._shared["counts"][ring, :, 0]
        self._slots = [rings.arrays(ring, index) for index in range(rings.depth)]

    def slot(self, deadline_s: float) -> Arrays | None:
        counts, depth = self._counts, self._rings.depth
        if not awaited(
            lambda: counts[_WRITTEN] - counts[_READ] < depth, self._rings._freed[self._ring], deadline_s
        ):
            return None
        return self._slots[int(counts[_WRITTEN]) % depth]

    def commit(self, *, wakes: bool = True) -> None:
        """See `SlotOut`; without `wakes`, a sleeping consumer is not woken until the next commit."""
        self._counts[_WRITTEN] += 1
        if wakes:
            self._rings.filled.release()


class Consumer:
    """See `SlotIn`. Producers are served in turn."""

    def __init__(self, rings: SlotRings) -> None:
        self._rings = rings
        self._counts = rings._shared["counts"][:, :, 0]
        self._slots = [
            [rings.arrays(ring, index) for index in range(rings.depth)] for ring in range(rings.count)
        ]
        self._num_taken = self._counts[:, _READ].copy()  # includes slots that are not yet released
        self._next = 0

    def take(self, deadline_s: float) -> ReceivedSlot | None:
        if not awaited(lambda: len(self._full()) > 0, self._rings.filled, deadline_s):
            return None
        full = self._full()
        ring = int(full[np.searchsorted(full, self._next) % len(full)])
        self._next = ring + 1
        index = int(self._num_taken[ring]) % self._rings.depth
        self._num_taken[ring] += 1
        return ReceivedSlot(ring, self._slots[ring][index])

    def wait(self, seconds: float) -> None:
        _woken(self._rings.filled, seconds)

    def release(self, ring: int) -> None:
        self._counts[ring, _READ] += 1
        self._rings._freed[ring].release()

    def _full(self) -> np.ndarray:
        """Rings that have a full slot, in order."""
        return np.flatnonzero(self._counts[:, _WRITTEN] > self._num_taken)


class Wakes(Protocol):
    """A semaphore of threads or of processes."""

    def acquire(self, block: bool, timeout: float | None = None, /) -> bool: ...


def awaited(condition: Callable[[], bool], semaphore: Wakes, deadline_s: float) -> bool:
    """Waits until `condition` holds; `semaphore` is released whenever it may have become true."""
    end = time.monotonic() + deadline_s
    while not condition():
        remaining_s = end - time.monotonic()
        if remaining_s <= 0:
            return False
        _woken(semaphore, min(remaining_s, _POLL_S))
    return True


def _woken(semaphore: Wakes, seconds: float) -> None:
    """Sleeps until the semaphore is released, or for so long; then clears all further releases."""
    if semaphore.acquire(True, seconds):
        while semaphore.acquire(False):
            pass
