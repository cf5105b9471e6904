"""Message transport between hosts, on which the roles' edges are built.

A host has one thread for incoming messages, so that messages from one peer arrive in order. Messages to a peer that is
dead, or not placed yet, are lost: a sender that needs an answer repeats its request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

_KEPT = 1000  # messages buffered for an edge that its role has not opened yet


@dataclass(frozen=True)
class Message:
    """A message to an edge from a peer; `life` is the number of the peer's incarnation."""

    sender: str
    life: int
    kind: str
    content: tuple[Any, ...]


Hear = Callable[[Message], None]
# One plain tuple: each argument of a remote call costs as much as a whole message.
Envelope = tuple[str, int, str, str, tuple[Any, ...]]
Send = Callable[..., None]


def opened(envelope: Envelope, kept: Any = None) -> tuple[str, Message]:
    """Unpacks a message; returns the name of its edge and the message."""
    sender, life, edge, kind, content = envelope
    return edge, Message(sender, life, kind, content if kept is None else (*content, kept))


class Transport(Protocol):
    """The interface of a host to the ends of edges. `bell` is released whenever a message has arrived."""

    life: int
    bell: threading.Semaphore

    def send(self, to: str, edge: str, kind: str, *content: Any, kept: Any = None) -> None:
        """Sends arrays as they are. `kept` is a reference from `put`; its value becomes the content's last item."""

    def put(self, value: Any) -> Any:
        """Stores a value that many peers can fetch; returns its reference."""

    def life_of(self, peer: str) -> int:
        """Returns the newest known incarnation of a peer, from 0 on; -1 if it has none yet."""

    def listen(self, edge: str, hear: Hear) -> None:
        """Registers `hear`, which is called with each message to this edge, in the host's own thread."""


class HostTransport:
    """See `Transport`. `meet` sets the peers' send functions, which take an envelope (see `opened`) and a reference."""

    def __init__(self, me: str, life: int, put: Callable[[Any], Any]) -> None:
        self._me, self.life, self.put = me, life, put
        self.bell = threading.Semaphore(0)
        self._peers: dict[str, tuple[int, Send]] = {}
        self._hear: dict[str, Hear] = {}
        self._undelivered: dict[str, deque[Message]] = {}
        self._lock = threading.Lock()

    def meet(self, peers: Mapping[str, tuple[int, Send]]) -> None:
        """Sets the peers by name: the incarnation of each, and the function that sends to it."""
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
            for letter in self._undelivered.pop(edge, ()):
                hear(letter)
            self._hear[edge] = hear

    def deliver(self, edge: str, letter: Message) -> None:
        """Delivers a message; drops it if an earlier incarnation of the peer sent it."""
        if letter.life < self.life_of(letter.sender):
            return
        with self._lock:
            hear = self._hear.get(edge)
            if hear is None:
                self._undelivered.setdefault(edge, deque(maxlen=_KEPT)).append(letter)
            else:
                hear(letter)
        self.bell.release()
