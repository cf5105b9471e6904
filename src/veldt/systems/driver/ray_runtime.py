"""A graph's roles as Ray actors of a cluster, and its edges as mail between them."""

from __future__ import annotations

from typing import Any

from veldt.errors import UsageError
from veldt.exchange.graph import Graph, Role
from veldt.exchange.on_ray.edge_endpoints import EdgeFor, store_bytes
from veldt.exchange.on_ray.rate_limiter import RateLimiterServer
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.runtime.on_ray.cluster import Cluster
from veldt.runtime.on_ray.plans import HostedPlan
from veldt.runtime.on_ray.supervisor import RaySupervisor


def start_on_ray(cluster: Cluster, graph: Graph) -> tuple[RaySupervisor, dict[str, Any]]:
    """The supervisor of all roles, in the graph's order, not yet started; and the edges that it has a side of.

    UsageError where the cluster has no room for the least that the graph can work with.
    """
    number, numbers = 0, {}
    for role in graph.roles:
        for index in range(len(role.plans)):
            numbers[role.name, index] = number
            number += 1
    gpus = sum(role.gpus * len(role.plans) for role in graph.roles)
    cluster.ready(cpus=number, gpus=gpus, store_bytes=store_bytes(graph.edges))
    _check_room(cluster, graph)
    shared: dict[str, Any] = {}
    books: dict[str, RateLimiterServer] = {}
    for name, edge in graph.edges.items():
        if isinstance(spec := edge.spec, RateLimiterSpec):
            rate_limiter = RateLimiter(spec, context=None)
            actors, learners = (
                {numbers[key]: key[1] for key in numbers if key[0] == side}
                for side in (edge.target, edge.source)
            )
            shared[name], books[name] = rate_limiter, RateLimiterServer(rate_limiter, actors, learners)
    plans = []
    for role in graph.roles:
        for index, (plan, names) in enumerate(zip(role.plans, role.edges, strict=True)):
            ends = [_edge_for(graph, role, index, name) for name in names]
            plans.append(
                HostedPlan(
                    arguments=(plan, *ends),
                    **role.role_plan(index),
                    gpus=role.gpus,
                    is_needed=role.least is None or index < role.least,
                    peers=tuple({other for end in ends for other in end.others}),
                    gauges={1 + at: books[name] for at, name in enumerate(names) if name in books},
                )
            )
    return RaySupervisor(plans), shared


def _edge_for(graph: Graph, role: Role, index: int, name: str) -> EdgeFor:
    edge = graph.edges[name]
    is_source = role.name == edge.source
    others = [
        other.named(place)
        for other in graph.roles
        for place, names in enumerate(other.edges)
        if name in names and is_source != (other.name == edge.source)
    ]
    is_rate_limiter = isinstance(edge.spec, RateLimiterSpec)
    place = index if not is_rate_limiter or role.name in (edge.source, edge.target) else -1
    return EdgeFor(
        name, edge, is_source, role.name == edge.target, place, () if is_rate_limiter else tuple(others)
    )


def _check_room(cluster: Cluster, graph: Graph) -> None:
    least = [(role, len(role.plans) if role.least is None else role.least) for role in graph.roles]
    cpus, gpus = sum(count for _, count in least), sum(role.gpus * count for role, count in least)
    has = cluster.resources()
    what = " + ".join(f"{count} x {role.name}" for role, count in least if count)
    if has.get("CPU", 0) < cpus:
        raise UsageError(
            f"the cluster has {has.get('CPU', 0):g} CPUs, and this run needs {cpus} at least, one for each of {what}: "
            "add nodes, or leave out --cluster"
        )
    if has.get("GPU", 0) < gpus:
        raise UsageError(
            f"the cluster has {has.get('GPU', 0):g} GPUs, and the learner's --device needs {gpus}: add a node that has "
            "them, or take --device cpu"
        )
