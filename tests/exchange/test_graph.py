"""Graphs: what is drawn is what is there."""

from __future__ import annotations

import pytest

from veldt.api import drawn
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
            {"model": 1, "agents": 2, "evaluator": 1},
            [("agents -> model", 1), ("model -> agents", 1), ("model -> evaluator", 1)],
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
