"""The weights edge by mail: a reader asks for what is newer than what it has, and finds it at its next look.

    learner --publish(version)--> one copy here --put once, when asked--> mail to all who asked --> pull_if_newer

The learner only copies; a thread puts what is newest when anybody has asked for it. A reader asks when it looks, and
never waits: it has the weights of its last look at least, and each has at most one copy under way.

Whoever publishes may die, and what it had published with it. Its next life can ask its readers, and gets the newest
that any of them has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np

from veldt.exchange.weights import Arrays, check_layouts
from veldt.runtime.on_ray.transport import Message, Transport
from veldt.runtime.shared import Layout, SharedArrays, arrays_in

_AGAIN_S = 5.0  # until a reader that was not answered asks again
_PAUSE_S, _PAUSE_EACH = 0.02, 4.0  # between two copies: this, and so many times as long as the last one took
# A former life's weights are asked for so often until a reader answers (one that has not heard of this life yet answers
# the one before), and then for so long by others who may have newer ones.
_ASK_S, _RECALL_S = 0.1, 0.3


class RayWeightsPublisher:
    """The end of whoever publishes, a learner or a parameter shard; see `weights.Weights`."""

    def __init__(
        self, mail: Transport, edge: str, layouts: Mapping[str, Layout], readers: Sequence[str]
    ) -> None:
        self._mail, self._edge, self._layouts, self._readers = mail, edge, layouts, readers
        self._copy = SharedArrays(layouts, None)
        self._version: int | None = None
        self._has_published, self._recall_at, self._recalled_at = False, 0.0, 0.0
        self._asked: dict[str, int] = {}  # by whom, and which version it has
        self._changed = threading.Condition()
        mail.listen(edge, self._hear)
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
        """What it has published itself or, before that, what readers have of its former life."""
        is_recalling = self._recall()
        with self._changed:
            if is_recalling or self._version in (None, than):
                return than
            for name, array in into.items():
                np.copyto(array, self._copy[name])
            assert self._version is not None
            return self._version

    def _recall(self) -> bool:
        """Asks readers, when that is due; whether there may still be a newer answer."""
        if self._has_published or not self._mail.life:
            return False
        now = time.monotonic()
        if self._version is None and now > self._recall_at:
            self._recall_at = now + _ASK_S
            for reader in self._readers:
                self._mail.send(reader, self._edge, "lost")
        return self._version is None or now - self._recalled_at < _RECALL_S

    def _hear(self, letter: Message) -> None:
        with self._changed:
            if letter.kind == "had":
                version, block = letter.content
                if not self._has_published and (self._version is None or version > self._version):
                    np.copyto(self._copy.block, block)
                    self._recalled_at = self._recalled_at or time.monotonic()
                    self._version = version
            else:
                self._asked[letter.sender] = letter.content[0]
            self._changed.notify()

    def _answer(self) -> None:
        while True:
            with self._changed:
                while not (to := self._to_answer()):
                    self._changed.wait()
                for reader in to:
                    del self._asked[reader]
                version, block = self._version, self._copy.block.copy()
            began = time.monotonic()
            kept = self._mail.put(block)
            for reader in to:
                self._mail.send(reader, self._edge, "weights", version, kept=kept)
            time.sleep(_PAUSE_S + _PAUSE_EACH * (time.monotonic() - began))

    def _to_answer(self) -> list[str]:
        return [reader for reader, has in self._asked.items() if self._version not in (None, has)]


class RayWeightsReader:
    """The end of whoever acts; see `weights.Weights`."""

    def __init__(self, mail: Transport, edge: str, layouts: Mapping[str, Layout], source: str) -> None:
        self._mail, self._edge, self._layouts, self._source = mail, edge, layouts, source
        self._newest: tuple[int, np.ndarray] | None = None
        self._last: tuple[int, np.ndarray] | None = None  # the same, also when it was pulled
        self._asked_at, self._asked_life, self._is_asked = 0.0, -1, False
        mail.listen(edge, self._hear)

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
        now, life = time.monotonic(), self._mail.life_of(self._source)
        if self._is_asked and life == self._asked_life and now - self._asked_at < _AGAIN_S:
            return
        self._asked_at, self._asked_life, self._is_asked = now, life, True
        self._mail.send(self._source, self._edge, "has", has)

    def _hear(self, letter: Message) -> None:
        if letter.kind == "lost":
            if self._last is not None:
                self._mail.send(self._source, self._edge, "had", *self._last)
            return
        # In this order: who sees that it has not asked finds what has come.
        self._newest = self._last = letter.content[0], letter.content[1]
        self._is_asked = False
