"""A system as data: its roles, the number of processes of each, and the edges between them.

A runtime makes the edges, and starts each role with its plan and its edges. So roles are connected in one place, and
run the same code on every runtime.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar

import numpy as np

from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.inference import InferenceEdge, InferenceSpec
from veldt.exchange.persistent_state import PersistentState
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.exchange.replay import ReplayEdge
from veldt.exchange.shared_statistics import SharedStatistics, SharedStatisticsSpec
from veldt.exchange.slots import SlotRings
from veldt.exchange.weights import SharedWeights
from veldt.runtime.shared import Layout

Groups = dict[str, dict[str, np.ndarray]]
# By parameter of an entry function: the name of its edge, or the names of its edges.
Wiring = Mapping[str, str | tuple[str, ...]]
T = TypeVar("T")


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
    """See `replay.ReplayEdge`. `fed_by` names, for each shard, the edge of slots that it also consumes."""

    layouts: Mapping[str, Layout]
    rows: int
    ahead: int
    fed_by: tuple[str, ...]


@dataclass(frozen=True)
class PersistentStateSpec:
    """See `persistent_state.PersistentState`."""

    layouts: Mapping[str, Layout]


Spec = (
    WeightsSpec
    | SlotsSpec
    | ReplaySpec
    | RateLimiterSpec
    | CentralStoreSpec
    | SharedStatisticsSpec
    | InferenceSpec
    | PersistentStateSpec
)


def edge_bytes(spec: Spec) -> int:
    """Returns the bytes of memory that an edge takes between its ends."""
    match spec:
        case WeightsSpec(layouts):
            return 2 * _nbytes(layouts)
        case SlotsSpec(layouts, rings, depth):
            return rings * depth * _nbytes(layouts)
        case ReplaySpec(layouts, ahead=ahead):
            return (ahead + 1) * _nbytes(layouts)
        case CentralStoreSpec(initial):
            return sum(array.nbytes for array in initial.values())
        case SharedStatisticsSpec(initial):
            return 2 * sum(array.nbytes for array in initial.values())
        case InferenceSpec() as inference:
            return _nbytes(inference.layouts())
        case PersistentStateSpec(layouts):
            return _nbytes(layouts)
    return 0


def _nbytes(layouts: Mapping[str, Layout]) -> int:
    return sum(layout.nbytes for layout in layouts.values())


@dataclass(frozen=True)
class Edge:
    """An edge between two roles (by name); `carries` describes its contents for the drawing.

    `writer` is the index of the process of `source` that writes, where others of the same role read; None: all write.
    """

    source: str
    target: str
    carries: str
    spec: Spec
    writer: int | None = None

    def is_written_by(self, role: str, index: int) -> bool:
        """Whether the process of this index of a role is on the edge's source side."""
        return role == self.source and self.writer in (None, index)


def role_name(name: str, index: int, count: int) -> str:
    """Returns the name of one process of a role, out of `count`: for notes, `top`, and checkpoints."""
    return f"{name} {index}" if count > 1 else name


@dataclass(frozen=True)
class Role:
    """Processes that do the same: `entry(control, plan, **edges)` for each of the plans.

    Args:
        description: for the drawing.
        entry: works until it is asked to stop; of a role that can run in the driver's process, it returns one that
            takes turns (`runtime.supervision.inline.InlineRole`).
        edges: for each process, names of its edges by parameter of `entry`; a tuple of names gives a list of edges.
        max_restarts: how often each may be restarted.
        deadline_s: seconds without a heartbeat after which a process counts as hung.
        startup_timeout_s: the same until its first heartbeat, where that takes longer.
        num_checkpointed: number of processes, from the first on, that have parts in checkpoints.
        resumes_from: what a restarted process resumes from, for a note; {step} is the newest checkpoint's.
        niceness: see `runtime.supervision.plans.RolePlan`.
        is_synchronised: whether all are lost when one is, and restarted with it.
        gpus: GPUs that each process needs, where the runtime assigns them.
        least: minimum of processes with which the system works; the rest join when there is room. None: all.
        is_limit_given: set by `Graph.with_given_limit`.
    """

    name: str
    description: str
    entry: Callable[..., Any]
    plans: Sequence[Any]
    edges: Sequence[Wiring]
    max_restarts: int
    deadline_s: float
    num_checkpointed: int = 0
    resumes_from: str = ""
    niceness: int = 0
    is_synchronised: bool = False
    gpus: int = 0
    least: int | None = None
    startup_timeout_s: float = 0.0
    is_limit_given: bool = False

    def is_checkpointed(self, index: int) -> bool:
        """Whether the process of this index has a part in checkpoints."""
        return index < self.num_checkpointed

    def named(self, index: int) -> str:
        return role_name(self.name, index, len(self.plans))

    def edge_names(self, index: int) -> list[str]:
        """Returns the names of all edges of the process of this index."""
        return edge_names(self.edges[index])

    @property
    def all_edge_names(self) -> set[str]:
        """The names of the edges that any of its processes has."""
        return {name for wiring in self.edges for name in edge_names(wiring)}

    def role_plan(self, index: int) -> dict[str, Any]:
        """Returns the supervisor's settings for one process, by the names of `runtime.supervision.plans.RolePlan`."""
        return {
            "name": self.named(index),
            "role": self.entry,
            "max_restarts": self.max_restarts,
            "deadline_s": self.deadline_s,
            "startup_timeout_s": self.startup_timeout_s,
            "niceness": self.niceness,
            "group": self.name if self.is_synchronised else "",
            "is_limit_given": self.is_limit_given,
        }


@dataclass(frozen=True)
class Graph:
    """Roles, and edges by name.

    `whole` joins groups of a checkpoint that are parts of the same thing: from all groups of arrays, by name.
    """

    roles: tuple[Role, ...]
    edges: Mapping[str, Edge]
    whole: Callable[[Groups], Groups] = lambda groups: groups

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be connected, before any process is started."""
        for name, edge in self.edges.items():
            self._check_writer(name, edge)
        for role in self.roles:
            self._check_wiring(role)

    def _check_writer(self, name: str, edge: Edge) -> None:
        if isinstance(edge.spec, WeightsSpec) and edge.source == edge.target and edge.writer is None:
            raise ValueError(
                f"edge '{name}' carries weights between processes of the role '{edge.source}': say by `writer` "
                "which of them publishes, by its index"
            )
        counts = [len(role.plans) for role in self.roles if role.name == edge.source]
        if edge.writer is not None and not any(0 <= edge.writer < count for count in counts):
            raise ValueError(
                f"edge '{name}' has the writer {edge.writer}, and no process of the role '{edge.source}' has that "
                "index"
            )

    def _check_wiring(self, role: Role) -> None:
        if len(role.edges) != len(role.plans):
            raise ValueError(
                f"role '{role.name}' has {len(role.plans)} plans, and edges for {len(role.edges)} processes: give "
                "one mapping of edges for each plan"
            )
        if unknown := sorted(role.all_edge_names - self.edges.keys()):
            raise ValueError(
                f"role '{role.name}' has the edge '{unknown[0]}', and the graph's edges are "
                f"{', '.join(sorted(self.edges))}: take one of these, or add it to the graph"
            )
        for plan, wiring in zip(role.plans, role.edges, strict=True):
            try:
                inspect.signature(role.entry).bind(None, plan, **wiring)
            except TypeError as error:
                raise ValueError(
                    f"role '{role.name}' gives its entry function {role.entry.__name__} the edges "
                    f"{', '.join(wiring)}, which are not its parameters ({error}): name each edge by the parameter "
                    "that takes it"
                ) from None

    def with_given_limit(self) -> Graph:
        """Returns the same graph, whose roles have no limit of restarts but `max_restarts`: the user has given it."""
        roles = tuple(dataclasses.replace(role, is_limit_given=True) for role in self.roles)
        return dataclasses.replace(self, roles=roles)

    def drawn(self) -> list[str]:
        """Returns lines of text: the roles with their numbers, and what the edges carry."""
        lines = ["roles"]
        lines += [f"  {len(role.plans):>4} x {role.name:<10} {role.description}" for role in self.roles]
        lines += ["", "edges"]
        alike: dict[tuple[str, str, str], int] = {}
        for name, edge in self.edges.items():
            sides = (edge.source, edge.target)
            using = [role.name for role in self.roles if name in role.all_edge_names]
            readers = [role for role in using if role not in sides]
            for target in (edge.target, *readers):
                key = edge.source, target, edge.carries
                alike[key] = alike.get(key, 0) + 1
        for (source, target, carries), count in alike.items():
            times = f" (x {count})" if count > 1 else ""
            lines.append(f"  {source:>10} -> {target:<10} {carries}{times}")
        return lines


def edge_names(wiring: Wiring) -> list[str]:
    """Returns the names of all edges of a process."""
    return [name for names in wiring.values() for name in ((names,) if isinstance(names, str) else names)]


def edges_by_parameter(wiring: Wiring, find: Callable[[str], T]) -> dict[str, T | list[T]]:
    """Returns the keyword arguments of an entry function: `find` returns an edge, or its end, by its name."""
    return {
        parameter: find(names) if isinstance(names, str) else [find(name) for name in names]
        for parameter, names in wiring.items()
    }


def make_local_edges(edges: Mapping[str, Edge], context: ForkServerContext) -> dict[str, Any]:
    """Returns the edges, in memory that the processes of this machine share."""
    local_edges: dict[str, Any] = {}
    for name, edge in edges.items():
        match edge.spec:
            case WeightsSpec(layouts):
                local_edges[name] = SharedWeights(layouts, context)
            case SlotsSpec(layouts, rings, depth):
                local_edges[name] = SlotRings(layouts, rings, depth, context)
            case ReplaySpec(layouts, rows, ahead, fed_by):
                wakes = [local_edges[feeder].filled for feeder in fed_by]
                local_edges[name] = ReplayEdge(layouts, rows, ahead, wakes, context)
            case RateLimiterSpec() as spec:
                local_edges[name] = RateLimiter(spec, context)
            case CentralStoreSpec() as spec:
                local_edges[name] = CentralStore(spec, context)
            case SharedStatisticsSpec() as spec:
                local_edges[name] = SharedStatistics(spec, context)
            case InferenceSpec() as spec:
                local_edges[name] = InferenceEdge(spec, context)
            case PersistentStateSpec(layouts):
                local_edges[name] = PersistentState(layouts, context)
    return local_edges
