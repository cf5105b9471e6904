"""What every process with a part of a replay buffer does: stores what arrives, draws batches, renews priorities."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from veldt.exchange.replay import ReplayOut, SampleRequest
from veldt.exchange.slots import ReceivedSlot, SlotIn
from veldt.replay.batch import ReplayBatch
from veldt.replay.sampling_registry import SamplingStrategy

_AT_ONCE = 16  # requests of a learner that are served before slots are checked again
_WAIT_S = 0.05  # seconds without a heartbeat while there is nothing to do


class ServedBuffer(Protocol):
    """A replay buffer: `ReplayBuffer`, or `RowBuffer`."""

    index: SamplingStrategy
    dropped: int

    def __len__(self) -> int: ...

    def sample(self, batch: ReplayBatch, seed: int) -> None: ...

    def update(self, key_N: np.ndarray, priority_N: np.ndarray) -> None: ...


class ReplayService:
    """A buffer with its ends of the edges from those that add to it, and to learners.

    Args:
        store: appends a received slot to the buffer.
    """

    def __init__(
        self,
        buffer: ServedBuffer,
        incoming: SlotIn,
        servers: Sequence[ReplayOut],
        store: Callable[[ReceivedSlot], None],
    ) -> None:
        self._buffer, self._incoming, self._servers, self._store = buffer, incoming, servers, store
        for server in servers:
            _publish_state(server, buffer)

    def step(self) -> None:
        """Stores a slot and carries out requests; waits a moment where there is neither."""
        received = self._incoming.take(0.0)
        if received is not None:
            self._store(received)
            self._incoming.release(received.ring)
        is_idle = received is None
        for server in self._servers:
            for request in itertools.islice(iter(server.take, None), _AT_ONCE):
                _execute(request[0], self._buffer)
                server.done(*request)
                is_idle = False
            _publish_state(server, self._buffer)
        if is_idle:
            self._incoming.wait(_WAIT_S)


def _publish_state(server: ReplayOut, buffer: ServedBuffer) -> None:
    """Publishes total sampling weight, rows and dropped priorities of the replay buffer."""
    server.state(buffer.index.mass if len(buffer) else 0.0, len(buffer), buffer.dropped)


def _execute(request: SampleRequest, buffer: ServedBuffer) -> None:
    if request.out is None:
        buffer.update(request.key_N, request.priority_N)
    else:
        buffer.sample(request.out, request.seed)
