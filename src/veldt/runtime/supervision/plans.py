"""What a supervisor has to know of a role before it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RolePlan:
    """The plan of one role process.

    Args:
        name: the role's name in messages: "actor 3".
        role: a function of a module, called as `role(control, *arguments, **edges)` in the process.
        max_restarts: maximum number of restarts.
        is_limit_given: whether the user gave that number: then no limit of `recurrence` holds.
        deadline_s: maximum seconds between heartbeats.
        startup_timeout_s: maximum seconds until the first heartbeat, if longer.
        niceness: the process's niceness, where there are fewer cores than processes with work.
        group: roles of the same group (not "") are restarted together, whichever of them failed.
    """

    name: str
    role: Callable[..., None]
    arguments: tuple[Any, ...]
    max_restarts: int
    deadline_s: float = 30.0
    niceness: int = 0
    group: str = ""
    startup_timeout_s: float = 0.0
    is_limit_given: bool = False
    edges: Mapping[str, Any] = field(default_factory=dict)

    def patience_s(self, has_sent_heartbeat: bool) -> float:
        """Returns the seconds without a heartbeat after which the role counts as hung."""
        return self.deadline_s if has_sent_heartbeat else max(self.deadline_s, self.startup_timeout_s)
