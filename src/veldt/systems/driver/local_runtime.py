"""Runs a graph's roles as processes of this machine, with its edges in shared memory."""

from __future__ import annotations

from typing import Any

from veldt.errors import UsageError
from veldt.exchange.graph import Graph, edge_bytes, edges_by_parameter, make_local_edges
from veldt.runtime.processes import PRELOAD_ROLES, forkserver
from veldt.runtime.supervision import RolePlan
from veldt.runtime.supervisor import Supervisor
from veldt.runtime.system_memory import available_memory

_GIB = 2**30


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


def _check_memory(graph: Graph) -> None:
    """Raises UsageError where the buffers of the edges do not fit into this machine's memory."""
    largest = max(graph.edges.values(), key=lambda edge: edge_bytes(edge.spec))
    needed, available = sum(edge_bytes(edge.spec) for edge in graph.edges.values()), available_memory()
    if needed > available:
        raise UsageError(
            f"the data between roles needs {needed / _GIB:.1f} GiB of memory, and {available / _GIB:.1f} GiB "
            f"are available: most of it is for {largest.carries}; take fewer of these, or smaller ones"
        )
