"""A transport that carries letters when it is told to."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from veldt.runtime.on_ray.transport import Envelope, HostTransport, Message, opened


class QueuedTransport:
    """Carries letters between mailboxes when it is told to, copies of what was sent as Ray makes them."""

    def __init__(self) -> None:
        self.boxes: dict[str, HostTransport] = {}
        self.lives: dict[str, int] = {}
        self.under_way: deque[tuple[str, int, str, Message]] = deque()

    def starts(self, name: str) -> HostTransport:
        """The next life of a host; letters to the one before are lost."""
        self.lives[name] = life = self.lives.get(name, -1) + 1
        self.boxes[name] = HostTransport(name, life, lambda value: value.copy())
        for box in self.boxes.values():
            box.meet({to: (self.lives[to], self._sends(to, self.lives[to])) for to in self.boxes})
        return self.boxes[name]

    def _sends(self, to: str, to_life: int) -> Any:
        def send(envelope: Envelope, kept: Any = None) -> None:
            *head, content = envelope
            copied = tuple(_copied(value) for value in content)
            self.under_way.append((to, to_life, *opened((*head, copied), _copied(kept))))

        return send

    def carry(self) -> None:
        while self.under_way:
            to, life, edge, letter = self.under_way.popleft()
            if life == self.lives[to]:
                self.boxes[to].deliver(edge, letter)


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False  # as what Ray hands over
    return value
