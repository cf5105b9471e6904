"""Runs the only role of a graph in this process, one turn at each poll."""

from __future__ import annotations

from typing import Any

from veldt.exchange.graph import Graph, edges_by_parameter
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.runtime.inline import InlineSupervisor


def start_inline(graph: Graph) -> tuple[InlineSupervisor, dict[str, Any]]:
    """Returns the supervisor of the role, which it has made, and the edges."""
    (role,), edges = graph.roles, {}
    for name, edge in graph.edges.items():
        assert isinstance(edge.spec, RateLimiterSpec), "one role has no other role to exchange data with"
        edges[name] = RateLimiter(edge.spec, context=None)
    (plan,), (wiring,) = role.plans, role.edges
    return InlineSupervisor(role.entry, plan, edges_by_parameter(wiring, edges.__getitem__)), edges
