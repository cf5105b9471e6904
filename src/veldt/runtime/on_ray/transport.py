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
    """A message to an edge from a peer; `incarnation` is the number of the peer's incarnation."""

    sender: str
    incarnation: int
    kind: str
    content: tuple[Any, ...]


Receive = Callable[[Message], None]
# One plain tuple: each argument of a remote call costs as much as a whole message.
Envelope = tuple[str, int, str, str, tuple[Any, ...]]
Send = Callable[..., None]


def opened(envelope: Envelope, by_reference: Any = None) -> tuple[str, Message]:
    """Unpacks a message; returns the name of its edge and the message."""
    sender, incarnation, edge, kind, content = envelope
    return edge, Message(
        sender, incarnation, kind, content if by_reference is None else (*content, by_reference)
    )


class Transport(Protocol):
    """The interface of a host to the ends of edges. `arrived` is released whenever a message has arrived."""

    incarnation: int
    arrived: threading.Semaphore

    def send(self, to: str, edge: str, kind: str, *content: Any, by_reference: Any = None) -> None:
        """Sends arrays as they are. The value that `by_reference`, from `put`, refers to becomes the last item."""

    def put(self, value: Any) -> Any:
        """Stores a value that many peers can fetch; returns its reference."""

    def incarnation_of(self, peer: str) -> int:
        """Returns the newest known incarnation of a peer, from 0 on; -1 if it has none yet."""

    def listen(self, edge: str, receive: Receive) -> None:
        """Registers `receive`, which is called with each message to this edge, in the host's own thread."""


class HostTransport:
    """See `Transport`. A peer's send function takes an envelope (see `opened`) and a reference."""

    def __init__(self, me: str, incarnation: int, put: Callable[[Any], Any]) -> None:
        self._me, self.incarnation, self.put = me, incarnation, put
        self.arrived = threading.Semaphore(0)
        self._peers: dict[str, tuple[int, Send]] = {}
        self._receivers: dict[str, Receive] = {}
        self._undelivered: dict[str, deque[Message]] = {}
        self._lock = threading.Lock()

    def set_peers(self, peers: Mapping[str, tuple[int, Send]]) -> None:
        """Sets the peers by name: the incarnation of each, and the function that sends to it."""
        self._peers = dict(peers)
        self.arrived.release()

    def incarnation_of(self, peer: str) -> int:
        found = self._peers.get(peer)
        return -1 if found is None else found[0]

    def send(self, to: str, edge: str, kind: str, *content: Any, by_reference: Any = None) -> None:
        if (peer := self._peers.get(to)) is not None:
            envelope = (self._me, self.incarnation, edge, kind, content)
            peer[1](envelope, *(() if by_reference is None else (by_reference,)))

    def listen(self, edge: str, receive: Receive) -> None:
        with self._lock:
            for message in self._undelivered.pop(edge, ()):
                receive(message)
            self._receivers[edge] = receive

    def deliver(self, edge: str, message: Message) -> None:
        """Delivers a message; drops it if an earlier incarnation of the peer sent it."""
        if message.incarnation < self.incarnation_of(message.sender):
            return
        with self._lock:
            receive = self._receivers.get(edge)
            if receive is None:
                self._undelivered.setdefault(edge, deque(maxlen=_KEPT)).append(message)
            else:
                receive(message)
        self.arrived.release()
