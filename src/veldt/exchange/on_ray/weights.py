"""The weights edge over the transport: a reader requests newer weights, and finds them at a later pull.

    learner --publish(version)--> one copy here --put once, on request--> message to those readers --> pull_if_newer

The learner only copies; a thread puts the newest weights into the object store when a reader has requested them. A
reader sends its request when it pulls, and never waits: it gets at least the weights of its last request, and each
reader has at most one copy in flight.

When the publisher dies, its copy is lost. Its next incarnation can ask its readers, and gets the newest weights that
any of them has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np

from veldt.exchange.slots import Arrays
from veldt.exchange.weights import check_layouts
from veldt.runtime.on_ray.transport import Message, Transport
from veldt.runtime.shared import Layout, SharedArrays, arrays_in

_AGAIN_S = 5.0  # until a reader without an answer sends its request again
_PAUSE_S, _PAUSE_EACH = 0.02, 4.0  # between two copies: this, plus so many times the duration of the last one
# A restarted publisher asks for its former weights this often until a reader answers (one that has not seen the restart
# answers the former incarnation), and then waits so long for readers that may have newer ones.
_ASK_S, _RECALL_S = 0.1, 0.3


class RayWeightsPublisher:
    """The publisher's end, of a learner or a parameter shard; see `weights.Weights`."""

    def __init__(
        self, transport: Transport, edge: str, layouts: Mapping[str, Layout], readers: Sequence[str]
    ) -> None:
        self._transport, self._edge, self._layouts, self._readers = transport, edge, layouts, readers
        self._copy = SharedArrays(layouts, None)
        self._version: int | None = None
        self._has_published, self._recall_at, self._recalled_at = False, 0.0, 0.0
        self._requests: dict[str, int] = {}  # version that each reader with an open request has
        self._changed = threading.Condition()
        transport.listen(edge, self._receive)
        threading.Thread(target=self._answer, daemon=True, name="weights").start()

    def check(self, arrays: Arrays) -> None:
        check_layouts(self._layouts, arrays)

    def publish(self, version: int, arrays: Arrays) -> None:
        with self._changed:
            for name, array in arrays.items():
                np.copyto(self._copy[name], array)
            self._version, self._has_published = version, True
            self._changed.notify()

    def pull_if_newer(self, than: int, into: Arrays) -> int:
        """As in `Weights`, of its own publications; before the first, of those that readers have received before."""
        is_recalling = self._recall()
        with self._changed:
            if is_recalling or self._version in (None, than):
                return than
            for name, array in into.items():
                np.copyto(array, self._copy[name])
            assert self._version is not None
            return self._version

    def _recall(self) -> bool:
        """Asks readers for former weights, when that is due; returns whether a newer answer may still arrive."""
        if self._has_published or not self._transport.incarnation:
            return False
        now = time.monotonic()
        if self._version is None and now > self._recall_at:
            self._recall_at = now + _ASK_S
            for reader in self._readers:
                self._transport.send(reader, self._edge, "lost")
        return self._version is None or now - self._recalled_at < _RECALL_S

    def _receive(self, message: Message) -> None:
        with self._changed:
            if message.kind == "had":
                version, block = message.content
                if not self._has_published and (self._version is None or version > self._version):
                    np.copyto(self._copy.block, block)
                    self._recalled_at = self._recalled_at or time.monotonic()
                    self._version = version
            else:
                self._requests[message.sender] = message.content[0]
            self._changed.notify()

    def _answer(self) -> None:
        while True:
            with self._changed:
                while not (to := self._to_answer()):
                    self._changed.wait()
                for reader in to:
                    del self._requests[reader]
                version, block = self._version, self._copy.block.copy()
            began = time.monotonic()
            reference = self._transport.put(block)
            for reader in to:
                self._transport.send(reader, self._edge, "weights", version, by_reference=reference)
            time.sleep(_PAUSE_S + _PAUSE_EACH * (time.monotonic() - began))

    def _to_answer(self) -> list[str]:
        return [reader for reader, has in self._requests.items() if self._version not in (None, has)]


class RayWeightsReader:
    """The reader's end; see `weights.Weights`."""

    def __init__(self, transport: Transport, edge: str, layouts: Mapping[str, Layout], source: str) -> None:
        self._transport, self._edge, self._layouts, self._source = transport, edge, layouts, source
        self._newest: tuple[int, np.ndarray] | None = None
        self._last: tuple[int, np.ndarray] | None = None  # the same, kept after it was pulled
        self._requested_at, self._requested_incarnation, self._has_request = 0.0, -1, False
        transport.listen(edge, self._receive)

    def check(self, arrays: Arrays) -> None:
        check_layouts(self._layouts, arrays)
        self._ask(-1)

    def publish(self, version: int, arrays: Arrays) -> None:
        raise NotImplementedError("readers publish no weights")

    def pull_if_newer(self, than: int, into: Arrays) -> int:
        newest, self._newest = self._newest, None
        if newest is not None and newest[0] != than:
            arrays = arrays_in(newest[1], self._layouts)
            for name, array in into.items():
                np.copyto(array, arrays[name])
            than = newest[0]
        self._ask(than)
        return than

    def _ask(self, has: int) -> None:
        now, incarnation = time.monotonic(), self._transport.incarnation_of(self._source)
        is_current = incarnation == self._requested_incarnation
        if self._has_request and is_current and now - self._requested_at < _AGAIN_S:
            return
        self._requested_at, self._requested_incarnation, self._has_request = now, incarnation, True
        self._transport.send(self._source, self._edge, "has", has)

    def _receive(self, message: Message) -> None:
        if message.kind == "lost":
            if self._last is not None:
                self._transport.send(self._source, self._edge, "had", *self._last)
            return
        # In this order: a pull that sees no open request must find the weights that have arrived.
        self._newest = self._last = message.content[0], message.content[1]
        self._has_request = False
