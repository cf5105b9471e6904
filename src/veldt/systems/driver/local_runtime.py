"""Runs a graph on this machine: roles as processes with edges in shared memory, or its only role in this process."""

from __future__ import annotations

from typing import Any

from veldt.errors import UsageError
from veldt.exchange.graph import Graph, edge_bytes, edges_by_parameter, make_local_edges
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.formatting import gib
from veldt.runtime.processes import PRELOAD_ROLES, forkserver
from veldt.runtime.supervision.inline import InlineSupervisor
from veldt.runtime.supervision.local import Supervisor
from veldt.runtime.supervision.plans import RolePlan
from veldt.runtime.system_memory import available_memory


def start_local(graph: Graph) -> tuple[Supervisor, dict[str, Any]]:
    """Returns the supervisor of all roles, in the graph's order, not yet started; and the edges."""
    _check_memory(graph)
    context = forkserver(PRELOAD_ROLES)
    edges = make_local_edges(graph.edges, context)
    plans = []
    for role in graph.roles:
        for index, (plan, wiring) in enumerate(zip(role.plans, role.edges, strict=True)):
            own = edges_by_parameter(wiring, edges.__getitem__)
            plans.append(RolePlan(arguments=(plan,), edges=own, **role.role_plan(index)))
    return Supervisor(context, plans), edges


def start_inline(graph: Graph) -> tuple[InlineSupervisor, dict[str, Any]]:
    """Returns the supervisor of the only role, which takes one turn at each poll, already made; and the edges."""
    (role,), edges = graph.roles, {}
    for name, edge in graph.edges.items():
        assert isinstance(edge.spec, RateLimiterSpec), "one role has no other role to exchange data with"
        edges[name] = RateLimiter(edge.spec, context=None)
    (plan,), (wiring,) = role.plans, role.edges
    return InlineSupervisor(role.entry, plan, edges_by_parameter(wiring, edges.__getitem__)), edges


def _check_memory(graph: Graph) -> None:
    """Raises UsageError where the buffers of the edges do not fit into this machine's memory."""
    if not graph.edges:
        return
    largest = max(graph.edges.values(), key=lambda edge: edge_bytes(edge.spec))
    needed, available = sum(edge_bytes(edge.spec) for edge in graph.edges.values()), available_memory()
    if needed > available:
        raise UsageError(
            f"the data between roles needs {gib(needed)} of memory, and {gib(available)} "
            f"are available: most of it is for {largest.carries}; take fewer of these, or smaller ones"
        )
