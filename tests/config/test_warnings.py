"""Allowed but unlikely settings are warnings, and a recipe's own settings never are."""

from __future__ import annotations

from typing import Any

import pytest

from veldt.config.warnings import warnings_about
from veldt.recipes import RECIPES, find, plain_recipes
from veldt.recipes.overrides import with_settings


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veldt.config.warnings.allowed_cores", lambda: [0, 1])


@pytest.mark.parametrize(
    ("recipe", "given", "said"),
    [
        ("ppo", {"threads": 3}, "--threads is 3, and 2 cores"),
        ("impala", {"actors": 4, "num_envs": 8}, "--actors is 4, and 2 cores"),
        ("a2c", {"learners": 4, "num_envs": 8}, "--learners is 4, and 2 cores"),
        ("gorila", {"parameter_shards": 400}, "--parameter-shards is 400, and 2 cores"),
        ("dqn", {"steps": 900}, "--steps is 900, and learning starts after 1,000"),
        ("dqn", {"training_intensity": 5000.0}, "acting waits for 39 updates"),
        (
            "ppo",
            {"learning_rate": 1e9},
            "--learning-rate is 1000000000.0: an update then moves parameters so far",
        ),
        ("ppo", {"learning_rate": "linear:2:0"}, "--learning-rate is linear:2:0: an update then moves"),
        ("ddpg", {"actor_learning_rate": 3.0}, "--actor-learning-rate is 3.0: an update then moves"),
    ],
)
def test_a_warning_is_one_sentence_with_the_value(recipe: str, given: dict[str, Any], said: str) -> None:
    config = with_settings(find(recipe).config("CartPole-v1"), given)
    (sentence,) = warnings_about(config, given, on_cluster=False)
    assert said in sentence


@pytest.mark.parametrize(
    ("recipe", "env"),
    [*((name, "ALE/Pong-v5") for name in RECIPES), *((name, "CartPole-v1") for name in plain_recipes())],
)
def test_no_recipe_causes_a_warning(recipe: str, env: str) -> None:
    assert warnings_about(find(recipe).config(env), {}, on_cluster=False) == []


def test_an_import_of_torch_before_veldt_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veldt.openmp.torch_came_first", True)
    one, two = (with_settings(find("a2c").config("CartPole-v1"), {"threads": count}) for count in (1, 2))
    assert warnings_about(one, {}, on_cluster=False) == []
    (sentence,) = warnings_about(two, {}, on_cluster=False)
    assert "torch was imported before veldt" in sentence and "GOMP_SPINCOUNT" in sentence


@pytest.mark.parametrize(("steps", "warned"), [(63, True), (64, False)])
def test_a_rollout_longer_than_the_run_is_a_warning(steps: int, warned: bool) -> None:
    config = with_settings(find("a2c").config("CartPole-v1"), {"steps": steps, "num_envs": 4})
    found = warnings_about(config, {}, on_cluster=False, rollout=16)
    expected = "--steps is 63, and a rollout has up to 64 (4 envs x 16, less resets): the run en"
    assert [line[: len(expected)] for line in found] == ([expected] if warned else [])
