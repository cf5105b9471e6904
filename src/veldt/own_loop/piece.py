"""The interface of a piece: it adds to the graph, and opens its end in each process whose function takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from veldt.errors import UsageError, did_you_mean
from veldt.exchange.graph import Edge, Role, Wiring
from veldt.runtime.shared import Layout

if TYPE_CHECKING:
    from veldt.own_loop.role_process import RoleProcess

HUNG_S = 60.0  # seconds without a heartbeat of a piece's own process
STARTUP_TIMEOUT_S = 300.0  # the same at its start, where it imports the user's modules
_BETWEEN = ": "  # between a piece's name and what its edge is for, in an edge's parameter


@dataclass(frozen=True)
class Users:
    """The roles whose functions take the piece `name`: `counts` are their processes, by role."""

    name: str
    counts: Mapping[str, int]

    def count(self, role: str, parameter: str) -> int:
        """Returns the processes of the role that the piece names as its `parameter`. Raises UsageError for another."""
        if role not in self.counts:
            raise UsageError(
                f"the piece '{self.name}' has {parameter}='{role}'{did_you_mean(role, self.counts)}, and the roles "
                f"whose functions take it are {', '.join(self.counts) or 'none'}: name one of these"
            )
        return self.counts[role]

    def at(self, use: str) -> str:
        """Returns the parameter of an edge of this piece."""
        return f"{self.name}{_BETWEEN}{use}"


@dataclass(frozen=True)
class Parts:
    """What a piece adds to the graph, and the layouts of a network's arrays that its processes exchange."""

    roles: tuple[Role, ...]
    edges: Mapping[str, Edge]
    layouts: Mapping[str, Layout] = field(default_factory=dict)


class Piece(Protocol):
    """A piece, as the user describes it. Sent to the processes that take it."""

    def parts(self, users: Users) -> Parts:
        """Returns its roles and edges. Raises UsageError where it does not fit the roles that take it."""

    def wiring(self, users: Users, role: str, index: int) -> Wiring:
        """Returns the edges of a process that takes it, by what each is for."""

    def open(
        self, users: Users, process: RoleProcess, edges: Mapping[str, Any], layouts: Mapping[str, Layout]
    ) -> Any:
        """Opens its end in a process, with the edges of `wiring` and the layouts of `parts`; returns what the user's
        function gets."""


def wired(piece: Piece, users: Users, role: str, index: int) -> dict[str, str | tuple[str, ...]]:
    """Returns the edges of a process that takes the piece, by parameter of its entry function."""
    return {users.at(use): names for use, names in piece.wiring(users, role, index).items()}


def edges_of(name: str, edges: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the edges of the piece `name` of all edges that an entry function got, by what each is for."""
    prefix = f"{name}{_BETWEEN}"
    return {at.removeprefix(prefix): edge for at, edge in edges.items() if at.startswith(prefix)}
