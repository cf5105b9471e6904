"""Runs a graph's roles as Ray actors of a cluster, with its edges as messages between them."""

from __future__ import annotations

from typing import Any

from veldt.errors import UsageError
from veldt.exchange.graph import Graph, edges_by_parameter
from veldt.exchange.on_ray.edge_endpoints import EdgeFor, store_bytes
from veldt.exchange.on_ray.rate_limiter import RateLimiterServer
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.runtime.on_ray.cluster import Cluster
from veldt.runtime.on_ray.plans import HostedPlan
from veldt.runtime.on_ray.supervisor import RaySupervisor


def start_on_ray(cluster: Cluster, graph: Graph) -> tuple[RaySupervisor, dict[str, Any]]:
    """Returns the supervisor of all roles, in the graph's order, not yet started; and the edges that the driver uses.

    Raises UsageError where the cluster has no room for the minimum that the graph needs.
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
    servers: dict[str, RateLimiterServer] = {}
    for name, edge in graph.edges.items():
        if isinstance(spec := edge.spec, RateLimiterSpec):
            rate_limiter = RateLimiter(spec, context=None)
            actors, learners = (
                {numbers[key]: key[1] for key in numbers if key[0] == side}
                for side in (edge.target, edge.source)
            )
            shared[name], servers[name] = rate_limiter, RateLimiterServer(rate_limiter, actors, learners)
    plans = []
    for role in graph.roles:
        for index, (plan, wiring) in enumerate(zip(role.plans, role.edges, strict=True)):
            endpoints = {name: EdgeFor.of(graph, role, index, name) for name in role.edge_names(index)}
            plans.append(
                HostedPlan(
                    arguments=(plan,),
                    edges=edges_by_parameter(wiring, endpoints.__getitem__),
                    **role.role_plan(index),
                    gpus=role.gpus,
                    is_needed=role.least is None or index < role.least,
                    peers=tuple({other for end in endpoints.values() for other in end.others}),
                    counters={
                        parameter: servers[name]
                        for parameter, name in wiring.items()
                        if isinstance(name, str) and name in servers
                    },
                )
            )
    return RaySupervisor(plans, cluster.hosts()), shared


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
