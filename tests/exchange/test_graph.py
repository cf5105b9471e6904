"""Graphs: the drawing has all roles and edges, and roles get their edges by name."""

from __future__ import annotations

from typing import Any

import pytest

from veldt.api import drawn
from veldt.exchange.graph import Edge, Graph, Role, WeightsSpec, edges_by_parameter
from veldt.exchange.rate_limiter import RateLimiterSpec
from veldt.recipes import find
from veldt.recipes.overrides import with_settings


@pytest.mark.parametrize(
    ("recipe", "settings", "roles", "edges"),
    [
        (
            "apex-dqn",
            {"actors": 4, "shards": 2, "learners": 2, "num_envs": 16, "evaluator_share": 0.0},
            {"learner": 2, "replay": 2, "actor": 4},
            [("actor -> replay", 2), ("replay -> learner", 2)],
        ),
        (
            "impala",
            {"actors": 2, "num_envs": 4, "unrolls": 4, "evaluator_share": 0.5},
            {"learner": 1, "actor": 2, "evaluator": 1},
            [("actor -> learner", 1), ("learner -> actor", 1), ("learner -> evaluator", 1)],
        ),
        (
            "ga3c",
            {"agent_processes": 2, "num_envs": 4, "evaluate_every": 1000},
            {"model": 1, "agent": 2, "evaluator": 1},
            [("agent -> model", 1), ("model -> agent", 1), ("model -> evaluator", 1)],
        ),
    ],
)
def test_roles_and_edges_are_drawn(
    recipe: str, settings: dict[str, float], roles: dict[str, int], edges: list[tuple[str, int]]
) -> None:
    lines = drawn(with_settings(find(recipe).config("CartPole-v1"), settings))
    middle = lines.index("edges")
    counts = {line.split()[2]: int(line.split()[0]) for line in lines[1:middle] if line}
    assert counts == roles
    for ends, count in edges:
        of_it = [line for line in lines[middle:] if " ".join(line.split()[:3]) == ends]
        assert of_it and (count == 1) == ("(x" not in of_it[0])


def test_synchronous_recipes_have_sentences() -> None:
    assert any("envs" in line for line in drawn(find("ppo").config("CartPole-v1")))


def _entry(control: Any, plan: Any, counts: Any, parts: list[Any], weights: Any = None) -> None:
    """An entry function of a role that gets one edge, several of a kind, and perhaps another."""


def graph_of_role(**wiring: str | tuple[str, ...]) -> Graph:
    edges = {
        name: Edge("it", "it", "counts", RateLimiterSpec.free(1, 1, 1)) for name in ("a", "b 0", "b 1", "c")
    }
    return Graph((Role("it", "counts", _entry, [None], [wiring], 0, 1.0),), edges)


def test_edges_are_given_by_parameter() -> None:
    (role,) = graph_of_role(parts=("b 0", "b 1"), counts="a").roles
    assert edges_by_parameter(role.edges[0], str.upper) == {"parts": ["B 0", "B 1"], "counts": "A"}
    assert role.edge_names(0) == ["b 0", "b 1", "a"]


@pytest.mark.parametrize(
    ("wiring", "sentence"),
    [
        ({"counts": "a", "parts": ("b 0", "b 2")}, "role 'it' has the edge 'b 2', and the graph's edges are"),
        ({"counts": "a", "parts": (), "slots": "c"}, "got an unexpected keyword argument 'slots'"),
        ({"counts": "a"}, "missing a required argument: 'parts'"),
    ],
)
def test_a_wrong_wiring_is_refused_before_any_process_starts(wiring: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        graph_of_role(**wiring)


def test_weights_within_a_role_need_a_writer() -> None:
    edges = {
        "a": Edge("it", "it", "weights", WeightsSpec({})),
        "b": Edge("it", "it", "weights", WeightsSpec({}), 0),
    }
    wiring = {"counts": "b", "parts": (), "weights": "a"}
    with pytest.raises(
        ValueError, match=r"edge 'a' carries weights between processes .*: say by `writer` which"
    ):
        Graph((Role("it", "", _entry, [None], [wiring], 0, 1.0),), edges)
    edges["a"] = Edge("it", "it", "weights", WeightsSpec({}), 1)
    with pytest.raises(
        ValueError, match=r"edge 'a' has the writer 1, and no process of the role 'it' has that index"
    ):
        Graph((Role("it", "", _entry, [None], [wiring], 0, 1.0),), edges)


def test_each_process_needs_its_edges() -> None:
    graph = graph_of_role(counts="a", parts=())
    role = Role("it", "", _entry, [None, None], graph.roles[0].edges, 0, 1.0)
    with pytest.raises(ValueError, match="2 plans, and edges for 1 processes"):
        Graph((role,), graph.edges)
