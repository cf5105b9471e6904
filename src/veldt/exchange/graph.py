"""A system as data: its roles, how many there are of each, and the edges between them.

A runtime makes something of it: it makes the edges, and starts each role with its plan and the edges that it names. So
roles are wired in one place, and run alike wherever that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from typing import Any

import numpy as np

from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.inference import InferenceEdge, InferenceSpec
from veldt.exchange.persistent_state import PersistentState
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.exchange.replay import ReplayEdge
from veldt.exchange.slots import SlotRings
from veldt.exchange.weights import SharedWeights
from veldt.runtime.shared import Layout

Groups = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class WeightsSpec:
    """See `weights.SharedWeights`."""

    layouts: Mapping[str, Layout]


@dataclass(frozen=True)
class SlotsSpec:
    """See `slots.SlotRings`."""

    layouts: Mapping[str, Layout]
    rings: int
    depth: int


@dataclass(frozen=True)
class ReplaySpec:
    """See `replay.ReplayEdge`. `fed_by` names the edge of slots that each shard empties besides."""

    layouts: Mapping[str, Layout]
    rows: int
    ahead: int
    fed_by: tuple[str, ...]


@dataclass(frozen=True)
class PersistentStateSpec:
    """See `kept.PersistentState`."""

    layouts: Mapping[str, Layout]


Spec = (
    WeightsSpec
    | SlotsSpec
    | ReplaySpec
    | RateLimiterSpec
    | CentralStoreSpec
    | InferenceSpec
    | PersistentStateSpec
)


def edge_bytes(spec: Spec) -> int:
    """The memory that an edge takes between its ends."""
    match spec:
        case WeightsSpec(layouts):
            return 2 * _nbytes(layouts)
        case SlotsSpec(layouts, rings, depth):
            return rings * depth * _nbytes(layouts)
        case ReplaySpec(layouts, ahead=ahead):
            return (ahead + 1) * _nbytes(layouts)
        case CentralStoreSpec(initial):
            return sum(array.nbytes for array in initial.values())
        case InferenceSpec() as inference:
            return _nbytes(inference.layouts())
        case PersistentStateSpec(layouts):
            return _nbytes(layouts)
    return 0


def _nbytes(layouts: Mapping[str, Layout]) -> int:
    return sum(layout.nbytes for layout in layouts.values())


@dataclass(frozen=True)
class Edge:
    """From role to role (by name), and what travels, for the reader of a drawing."""

    source: str
    target: str
    carries: str
    spec: Spec


def role_name(name: str, index: int, count: int) -> str:
    """What the one of this index is called, of so many of a role: in notes, in `top`, and in checkpoints."""
    return f"{name} {index}" if count > 1 else name


@dataclass(frozen=True)
class Role:
    """Processes that do the same: `entry(control, plan, *edges)` for each of the plans.

    Args:
        does: for the reader of a drawing.
        edges: names of the edges that each of them gets, in the order of its arguments.
        restarts: how often each may be started again.
        deadline_s: seconds after which one that gives no sign of life counts as hung.
        begin_s: the same, until its first sign, where that takes longer.
        keeps: how many of them, from the first on, have parts in checkpoints.
        goes_on_from: what one that is started again goes on from, for the reader of a note; {step} is the newest
            checkpoint's.
        niceness: see `runtime.supervision.RolePlan`.
        together: whether all are lost when one is, and started again with it.
        gpus: how many each needs, where they are shared out.
        least: how many have to be there for the others to work; the rest join when there is room. None: all.
    """

    name: str
    description: str
    entry: Callable[..., None]
    plans: Sequence[Any]
    edges: Sequence[Sequence[str]]
    max_restarts: int
    deadline_s: float
    num_checkpointed: int = 0
    resumes_from: str = ""
    niceness: int = 0
    is_synchronised: bool = False
    gpus: int = 0
    least: int | None = None
    startup_timeout_s: float = 0.0

    def is_checkpointed(self, index: int) -> bool:
        """Whether the one of this index has a part in checkpoints."""
        return index < self.num_checkpointed

    def named(self, index: int) -> str:
        return role_name(self.name, index, len(self.plans))

    def role_plan(self, index: int) -> dict[str, Any]:
        """What whoever supervises the one of this index has to know, by the names of `runtime.supervision.RolePlan`."""
        return {
            "name": self.named(index),
            "role": self.entry,
            "max_restarts": self.max_restarts,
            "deadline_s": self.deadline_s,
            "startup_timeout_s": self.startup_timeout_s,
            "niceness": self.niceness,
            "group": self.name if self.is_synchronised else "",
        }


@dataclass(frozen=True)
class Graph:
    """Roles, and edges by name.

    `whole` puts together what parts of checkpoints have of the same thing: groups of arrays by name, from all of them.
    """

    roles: tuple[Role, ...]
    edges: Mapping[str, Edge]
    whole: Callable[[Groups], Groups] = lambda groups: groups

    def drawn(self) -> list[str]:
        """Lines of text: what there is of each role, and what travels between them."""
        lines = ["roles"]
        lines += [f"  {len(role.plans):>4} x {role.name:<10} {role.description}" for role in self.roles]
        lines += ["", "edges"]
        alike: dict[tuple[str, str, str], int] = {}
        for name, edge in self.edges.items():
            sides = (edge.source, edge.target)
            using = [role.name for role in self.roles if any(name in edges for edges in role.edges)]
            readers = [role for role in using if role not in sides]
            for target in (edge.target, *readers):
                key = edge.source, target, edge.carries
                alike[key] = alike.get(key, 0) + 1
        for (source, target, carries), count in alike.items():
            times = f" (x {count})" if count > 1 else ""
            lines.append(f"  {source:>10} -> {target:<10} {carries}{times}")
        return lines


def make_local_edges(edges: Mapping[str, Edge], context: ForkServerContext) -> dict[str, Any]:
    """The edges, in memory that the processes of this machine share."""
    made: dict[str, Any] = {}
    for name, edge in edges.items():
        match edge.spec:
            case WeightsSpec(layouts):
                made[name] = SharedWeights(layouts, context)
            case SlotsSpec(layouts, rings, depth):
                made[name] = SlotRings(layouts, rings, depth, context)
            case ReplaySpec(layouts, rows, ahead, fed_by):
                wakes = [made[feeder].filled for feeder in fed_by]
                made[name] = ReplayEdge(layouts, rows, ahead, wakes, context)
            case RateLimiterSpec() as spec:
                made[name] = RateLimiter(spec, context)
            case CentralStoreSpec() as spec:
                made[name] = CentralStore(spec, context)
            case InferenceSpec() as spec:
                made[name] = InferenceEdge(spec, context)
            case PersistentStateSpec(layouts):
                made[name] = PersistentState(layouts, context)
    return made
