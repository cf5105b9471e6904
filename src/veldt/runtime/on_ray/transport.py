"""Mail between hosts: what roles' ends of edges are made of, wherever their peers are.

A host has one thread for what comes in, so that what one peer sends arrives in its order. Mail to a peer that is dead,
or that has not been placed yet, is lost: whoever needs an answer asks again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

_KEPT = 1000  # letters to an edge that its role has not opened yet


@dataclass(frozen=True)
class Message:
    """From a peer in its `life`-th life, to an edge."""

    sender: str
    life: int
    kind: str
    content: tuple[Any, ...]


Hear = Callable[[Message], None]
# One plain tuple: each argument of a call costs as much as all of a letter does.
Envelope = tuple[str, int, str, str, tuple[Any, ...]]
Send = Callable[..., None]


def opened(envelope: Envelope, kept: Any = None) -> tuple[str, Message]:
    """The edge that a letter is for, and the letter."""
    sender, life, edge, kind, content = envelope
    return edge, Message(sender, life, kind, content if kept is None else (*content, kept))


class Transport(Protocol):
    """What ends of edges see of their host. `bell` is released whenever something has come."""

    life: int
    bell: threading.Semaphore

    def send(self, to: str, edge: str, kind: str, *content: Any, kept: Any = None) -> None:
        """Arrays travel as they are. What `put` returned goes as `kept`, and what was put comes last in the content."""

    def put(self, value: Any) -> Any:
        """Keeps a value where many peers can get it from."""

    def life_of(self, peer: str) -> int:
        """Its newest known life, from 0 on; -1 if it has none yet."""

    def listen(self, edge: str, hear: Hear) -> None:
        """From now on `hear` is called with each letter to this edge, in the host's own thread."""


class HostTransport:
    """See `Transport`. Peers are told by `meet`, as what sends to them: an envelope (see `opened`) and what was put."""

    def __init__(self, me: str, life: int, put: Callable[[Any], Any]) -> None:
        self._me, self.life, self.put = me, life, put
        self.bell = threading.Semaphore(0)
        self._peers: dict[str, tuple[int, Send]] = {}
        self._hear: dict[str, Hear] = {}
        self._unheard: dict[str, deque[Message]] = {}
        self._lock = threading.Lock()

    def meet(self, peers: Mapping[str, tuple[int, Send]]) -> None:
        """Peers by name: which life they are in, and what sends to them."""
        self._peers = dict(peers)
        self.bell.release()

    def life_of(self, peer: str) -> int:
        found = self._peers.get(peer)
        return -1 if found is None else found[0]

    def send(self, to: str, edge: str, kind: str, *content: Any, kept: Any = None) -> None:
        if (peer := self._peers.get(to)) is not None:
            envelope = (self._me, self.life, edge, kind, content)
            peer[1](envelope, *(() if kept is None else (kept,)))

    def listen(self, edge: str, hear: Hear) -> None:
        with self._lock:
            for letter in self._unheard.pop(edge, ()):
                hear(letter)
            self._hear[edge] = hear

    def deliver(self, edge: str, letter: Message) -> None:
        """Hands over what has come; what a peer sent in a former life is left out."""
        if letter.life < self.life_of(letter.sender):
            return
        with self._lock:
            hear = self._hear.get(edge)
            if hear is None:
                self._unheard.setdefault(edge, deque(maxlen=_KEPT)).append(letter)
            else:
                hear(letter)
        self.bell.release()
