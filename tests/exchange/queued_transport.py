"""Carries messages when it is told to."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from veldt.runtime.on_ray.transport import Envelope, HostTransport, Message, opened


class QueuedTransport:
    """Carries messages between hosts when it is told to, copies of what was sent as Ray makes them."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostTransport] = {}
        self.incarnations: dict[str, int] = {}
        self.under_way: deque[tuple[str, int, str, Message]] = deque()

    def starts(self, name: str) -> HostTransport:
        """The next incarnation of a host; messages to the one before are lost."""
        self.incarnations[name] = incarnation = self.incarnations.get(name, -1) + 1
        self.hosts[name] = HostTransport(name, incarnation, lambda value: value.copy())
        for host in self.hosts.values():
            host.set_peers(
                {to: (self.incarnations[to], self._sends(to, self.incarnations[to])) for to in self.hosts}
            )
        return self.hosts[name]

    def _sends(self, to: str, to_incarnation: int) -> Any:
        def send(envelope: Envelope, by_reference: Any = None) -> None:
            *head, content = envelope
            copied = tuple(_copied(value) for value in content)
            self.under_way.append((to, to_incarnation, *opened((*head, copied), _copied(by_reference))))

        return send

    def carry(self) -> None:
        while self.under_way:
            to, incarnation, edge, message = self.under_way.popleft()
            if incarnation == self.incarnations[to]:
                self.hosts[to].deliver(edge, message)


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False  # as what Ray hands over
    return value
