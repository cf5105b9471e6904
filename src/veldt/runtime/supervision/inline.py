"""A role that runs in this process: it takes one turn at each poll, behind the interface of supervised processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from veldt.runtime.role_messages import Received, RoleMessage
from veldt.runtime.roles import Peers


class InlineRole(Protocol):
    """What the entry function of a role returns that can run in this process."""

    def turn(self) -> bool:
        """Does the next piece of work. Returns False when the role has to end."""

    def flush(self, *, writing: bool, weights: bool) -> None:
        """See `interfaces.RunningRoles.flush`."""

    def close(self) -> None:
        """Frees its envs and processes."""


class InlineControl:
    """See `roles.Control`. Messages are handed over as they are."""

    restart_count, peers = 0, Peers(0, 1)

    def __init__(self) -> None:
        self.stopping, self.requested_snapshot = False, 0
        self.while_working: Callable[[], None] = lambda: None
        self._messages: list[RoleMessage] = []

    def heartbeat(self) -> None:
        """Shows the driver that the role works; what hangs in this process, a watchdog ends."""
        self.while_working()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def send(self, message: RoleMessage) -> None:
        self._messages.append(message)

    def received(self) -> list[Received]:
        """Returns the messages since the last call."""
        messages, self._messages = self._messages, []
        return [Received(0, message) for message in messages]


class InlineSupervisor:
    """See `interfaces.RunningRoles`. Errors of the role are raised by the call in which it was working.

    Args:
        entry: called once, at once, as `entry(control, plan, **edges)`.
    """

    is_inline = True

    def __init__(self, entry: Callable[..., InlineRole], plan: Any, edges: Mapping[str, Any]) -> None:
        self._control, self._snapshots = InlineControl(), 0
        self._role: InlineRole | None = entry(self._control, plan, **edges)

    def start(self, while_working: Callable[[], None] = lambda: None) -> None:
        """The role itself is there since this was made."""
        self._control.while_working = while_working

    def poll(self, patience_s: float) -> list[Received]:
        if self._role is not None:
            self._role.turn()
        return self._control.received()

    def request_snapshot(self) -> int:
        self._snapshots += 1
        self._control.requested_snapshot = self._snapshots
        return self._snapshots

    def snapshot_done(self) -> None:
        self._control.requested_snapshot = 0

    def flush(self, *, writing: bool = False, weights: bool = False) -> list[Received]:
        if self._role is not None:
            self._role.flush(writing=writing, weights=weights)
        return self._control.received()

    def has_ended(self, role: int) -> bool:
        return self._role is None

    def works(self, role: int, silent_s: float) -> bool:
        return True

    @property
    def all_ended(self) -> bool:
        return self._role is None

    def stop(self, patience_s: float) -> list[Received]:
        self._control.stopping = True
        messages = self.flush(writing=True)
        self.kill()
        return messages

    def kill(self) -> None:
        role, self._role = self._role, None
        if role is not None:
            role.close()
