"""A graph's roles as processes of this machine, and its edges in memory that they share."""

from __future__ import annotations

from typing import Any

from veldt.exchange.graph import Graph, made_here
from veldt.runtime.processes import PRELOAD_ROLES, forkserver
from veldt.runtime.supervision import RolePlan
from veldt.runtime.supervisor import Supervisor


def supervised_here(graph: Graph) -> tuple[Supervisor, dict[str, Any]]:
    """The supervisor of all roles, in the graph's order, not yet started; and the edges."""
    context = forkserver(PRELOAD_ROLES)
    edges = made_here(graph.edges, context)
    plans = []
    for role in graph.roles:
        for index, (plan, names) in enumerate(zip(role.plans, role.edges, strict=True)):
            arguments = (plan, *(edges[name] for name in names))
            name = role.named(index)
            group = role.name if role.together else ""
            plans.append(
                RolePlan(name, role.entry, arguments, role.restarts, role.deadline_s, role.niceness, group)
            )
    return Supervisor(context, plans), edges
