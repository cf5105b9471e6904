"""What a supervisor on Ray knows of a role, besides what any supervisor does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from veldt.runtime.supervision import RolePlan


class CounterServer(Protocol):
    """The supervisor's side of a `Gauge`."""

    def told(self, role: int) -> Any:
        """What the role of this number is to know."""

    def begins(self, role: int) -> None:
        """Called before the role's next life is told anything."""

    def heard(self, role: int, report: Any) -> None: ...

    def lost(self, role: int) -> None: ...


@dataclass(frozen=True)
class HostedPlan(RolePlan):
    """See `RolePlan`.

    Args:
        gpus: how many it needs.
        is_needed: whether the others wait for it; else it joins them when there is room.
        peers: names of the roles that it sends to.
        gauges: places among its arguments of edges that are exchanged with the supervisor, and the other sides of them.
    """

    gpus: int = 0
    is_needed: bool = True
    peers: tuple[str, ...] = ()
    gauges: Mapping[int, CounterServer] | None = None
