"""The plan of a role on Ray: additions to `RolePlan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from veldt.runtime.supervision.plans import RolePlan


class CounterServer(Protocol):
    """The supervisor's side of a `CounterSync`."""

    def counts_for(self, role: int) -> Any:
        """Returns the value to send to the role of this number."""

    def begins(self, role: int) -> None:
        """Called before the first value is sent to the role's next incarnation."""

    def receive_report(self, role: int, report: Any) -> None: ...

    def lost(self, role: int) -> None: ...


@dataclass(frozen=True)
class HostedPlan(RolePlan):
    """See `RolePlan`.

    Args:
        gpus: number of GPUs that the role needs.
        is_needed: whether the other roles wait for it; else it joins them when there is room.
        peers: names of the roles to which it sends.
        counters: by the parameter that gets a `CounterSync` edge, the supervisor's side of it.
    """

    gpus: int = 0
    is_needed: bool = True
    peers: tuple[str, ...] = ()
    counters: Mapping[str, CounterServer] = field(default_factory=dict)
