"""Edges as a role on a node gets them: it opens its own ends there, as on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from veldt.exchange.graph import (
    Edge,
    Graph,
    PersistentStateSpec,
    ReplaySpec,
    Role,
    SlotsSpec,
    WeightsSpec,
    edge_bytes,
)
from veldt.exchange.on_ray.rate_limiter import RateLimiterClient
from veldt.exchange.on_ray.replay import RayReplayClient, RayReplayServer
from veldt.exchange.on_ray.slots import RaySlotConsumer, RaySlotProducer
from veldt.exchange.on_ray.weights import RayWeightsPublisher, RayWeightsReader
from veldt.exchange.persistent_state import PersistentState
from veldt.exchange.rate_limiter import RateLimiterSpec
from veldt.runtime.on_ray.transport import Transport

_LEAST_BYTES = 128 * 2**20
_MOST_OF_MEMORY = 0.3


@dataclass(frozen=True)
class EdgeFor:
    """Edge `name` for one role, which has `index` on its side of it; `others` are the roles on the other side."""

    name: str
    edge: Edge
    is_source: bool
    is_target: bool  # of the rate limiter, a role may be both source and target
    index: int
    others: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph, role: Role, index: int, name: str) -> EdgeFor:
        """Returns the edge of this name for the process of this index of a role."""
        edge = graph.edges[name]
        is_source = edge.is_written_by(role.name, index)
        others = [
            other.named(position)
            for other in graph.roles
            for position in range(len(other.plans))
            if name in other.edge_names(position) and is_source != edge.is_written_by(other.name, position)
        ]
        is_rate_limiter = isinstance(edge.spec, RateLimiterSpec)
        position = index if not is_rate_limiter or role.name in (edge.source, edge.target) else -1
        is_target = role.name == edge.target
        return cls(name, edge, is_source, is_target, position, () if is_rate_limiter else tuple(others))

    def open(self, transport: Transport) -> Any:
        """Opens the role's end, which its entry point gets as an argument."""
        match self.edge.spec:
            case WeightsSpec(layouts):
                if self.is_source:
                    return RayWeightsPublisher(transport, self.name, layouts, self.others)
                return RayWeightsReader(transport, self.name, layouts, self.others[0])
            case SlotsSpec():
                return SlotsFor(self.name, self.edge.spec, self.others, transport)
            case ReplaySpec():
                return ReplayFor(self.name, self.edge.spec, self.others, transport)
            case RateLimiterSpec():
                learner, actor = (
                    self.index if at_side else -1 for at_side in (self.is_source, self.is_target)
                )
                return RateLimiterClient(self.edge.spec, actor, learner)
            case PersistentStateSpec(layouts):
                return PersistentState(layouts, context=None)


@dataclass(frozen=True)
class SlotsFor:
    """See `slots.Slots`."""

    name: str
    spec: SlotsSpec
    others: tuple[str, ...]
    transport: Transport

    def producer(self, ring: int) -> RaySlotProducer:
        return RaySlotProducer(
            self.transport, self.name, self.spec.layouts, self.spec.depth, ring, self.others[0]
        )

    def consumer(self) -> RaySlotConsumer:
        return RaySlotConsumer(self.transport, self.name, self.spec.layouts, self.spec.rings)


@dataclass(frozen=True)
class ReplayFor:
    """See `replay.ReplayEnds`."""

    name: str
    spec: ReplaySpec
    others: tuple[str, ...]
    transport: Transport

    def server(self, shard: int) -> RayReplayServer:
        return RayReplayServer(self.transport, self.name, self.spec.layouts, self.others[0])

    def client(self) -> RayReplayClient:
        spec = self.spec
        return RayReplayClient(self.transport, self.name, spec.layouts, spec.rows, spec.ahead, self.others)


def store_bytes(edges: Mapping[str, Edge]) -> int:
    """Returns bytes for Ray's object store: twice what may be in flight, up to a share of this machine's memory."""
    total = 0
    for edge in edges.values():
        copies = 4 if isinstance(edge.spec, WeightsSpec) else 1
        total += copies * edge_bytes(edge.spec)
    most = int(_MOST_OF_MEMORY * psutil.virtual_memory().total)
    return int(np.clip(2 * total, _LEAST_BYTES, max(_LEAST_BYTES, most)))
