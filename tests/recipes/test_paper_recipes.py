"""Paper recipes have the numbers of Stooke & Abbeel 2018, transcribed here from the paper."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import veldt
from veldt.cli import main
from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.recipes import RECIPES, Recipe, differences, find, plain_recipes
from veldt.recipes.paper_recipe import paper_recipe
from veldt.recipes.recipe import Sourced
from veldt.systems.planning.checks import check_request

GAME = "ALE/Breakout-v5"
OF_PAPERS = [recipe for recipe in RECIPES.values() if recipe.base is not None]
each_recipe = pytest.mark.parametrize("recipe", OF_PAPERS, ids=lambda recipe: recipe.name)

# Table 1: 25 M steps for policy gradients, 50 M for Q-learning, which is evaluated each million steps (section 5).
POLICY_GRADIENT = {"steps": 25_000_000, "evaluate_every": 0, "preprocessing": "104x80"}
Q_LEARNING = {
    "steps": 50_000_000,
    "evaluate_every": 1_000_000,
    "evaluate_steps": 125_000,
    "preprocessing": "104x80",
    "training_intensity": 8.0,
    "buffer_size": 1_000_000,
    "max_episode_steps": 27_000,
}
# Section 5.2: 8 x 256, 4 updates in each of 4 epochs; A.3: nothing changed in PPO's own settings (its table 5).
PPO = {
    **POLICY_GRADIENT,
    "batch_size": 2048,
    "epochs": 4,
    "minibatches": 4,
    "clip": 0.1,
    "gae_lambda": 0.95,
    "gamma": 0.99,
    "vf_coef": 1.0,
    "ent_coef": 0.01,
}
# One factor α falls from 1 to 0, and multiplies the learning rate and the clip range (table 5 there; accel_rl).
ANNEALED = {"anneal_learning_rate": True, "anneal_clip": True}
PAPER: dict[str, dict[str, Any]] = {
    "a2c-16": {**POLICY_GRADIENT, "num_envs": 16},
    "a2c-128": {**POLICY_GRADIENT, "num_envs": 128},
    "a2c-256": {**POLICY_GRADIENT, "num_envs": 256},
    "a2c-512": {**POLICY_GRADIENT, "num_envs": 512},
    "a3c-3x16": {**POLICY_GRADIENT, "learners": 3, "num_envs": 3 * 16},
    "a3c-16": {**POLICY_GRADIENT, "learners": 8, "num_envs": 8 * 16},
    "ppo-8x256": {**PPO, "num_envs": 8, **ANNEALED, "max_grad_norm": 0.0},
    "ppo-128x16": {**PPO, "num_envs": 128, **ANNEALED, "max_grad_norm": 0.0},
    "ppo-512x4": {**PPO, "num_envs": 512, **ANNEALED, "max_grad_norm": 0.0},
    "appo-8": {
        **PPO,
        "learners": 8,
        "num_envs": 8 * 8,
        "anneal_learning_rate": False,
        "anneal_clip": False,
        "max_grad_norm": 0.5,
        "actor_sync_interval": 64,
    },
    "dqn-512": {**Q_LEARNING, "batch_size": 512},
    "async-dqn-512": {**Q_LEARNING, "batch_size": 512, "learners": 4},
    "c51-2048": {**Q_LEARNING, "batch_size": 2048},
    "rainbow-512": {**Q_LEARNING, "batch_size": 512, "noisy": False, "n_step": 3},
}
# Name: envs of a learner, steps of each env between optimisation phases, learning rate of the first update, which A.3
# has for A2C with 16 and with 512 envs; between them it grows with the square root of the batch.
SIZES = {
    "a2c-16": (16, 5, 7e-4),
    "a2c-128": (128, 5, 7e-4 * 8**0.5),
    "a2c-256": (256, 5, 7e-4 * 16**0.5),
    "a2c-512": (512, 5, 3e-3),
    "a3c-3x16": (16, 5, 7e-4),
    "a3c-16": (16, 5, 7e-4),
    "ppo-8x256": (8, 256, 2.5e-4),
    "ppo-128x16": (128, 16, 2.5e-4),
    "ppo-512x4": (512, 4, 2.5e-4),
    "appo-8": (8, 256, 2.5e-4 / 4),
    "dqn-512": (16, 4, 7.5e-4),
    "async-dqn-512": (16, 4, 7.5e-4),
    "c51-2048": (16, 16, 4.2e-4),
    "rainbow-512": (16, 4, 6.25e-5),
}


def values_of(recipe: Recipe) -> dict[str, Any]:
    config = recipe.config(GAME)
    parts = (getattr(config, section) for section in recipe.sections())
    return {field.name: getattr(part, field.name) for part in parts for field in dataclasses.fields(part)}


def test_every_configuration_of_the_paper_is_tested() -> None:
    assert [recipe.name for recipe in OF_PAPERS] == list(PAPER) == list(SIZES)


@each_recipe
def test_the_values_are_the_papers(recipe: Recipe) -> None:
    values = values_of(recipe)
    assert {name: values[name] for name in PAPER[recipe.name]} == PAPER[recipe.name]


@each_recipe
def test_horizon_and_learning_rate_are_the_papers(recipe: Recipe) -> None:
    config = recipe.config(GAME)
    envs, horizon, learning_rate = SIZES[recipe.name]
    algorithm = config.make_algorithm(ActionSpec("discrete", sizes=(4,), start=(0,)))
    assert config.envs.num_envs == envs * PAPER[recipe.name].get("learners", 1)
    assert algorithm.horizon(envs) == horizon
    rows = algorithm.update_rows(envs)
    assert algorithm.learning_rate(0.0, rows) == pytest.approx(learning_rate)


@pytest.mark.parametrize(("name", "epsilon"), [("c51-2048", 0.01 / 2048), ("rainbow-512", 0.005 / 512)])
def test_adams_epsilon_is_divided_by_the_batch(name: str, epsilon: float) -> None:
    learn = find(name).config(GAME).learn
    assert learn.rule().epsilon == pytest.approx(epsilon)  # type: ignore[union-attr, attr-defined]


@each_recipe
def test_every_value_could_be_given_by_a_user(recipe: Recipe) -> None:
    given = {name: setting.value for name, setting in recipe.settings(GAME).items()}
    check_request(RunRequest(recipe.config(GAME), resolve(GAME), given=given), None)


@each_recipe
def test_the_differences_are_those_of_the_configurations(recipe: Recipe) -> None:
    assert recipe.base is not None
    own, others = values_of(recipe), values_of(recipe.base)
    assert (
        {name for name, *_ in differences(recipe)}
        == {name for name in own if own[name] != others[name]}
        <= recipe.settings(GAME).keys()
    )


def test_a_difference_has_both_values_with_the_source() -> None:
    recipe = paper_recipe(
        find("ppo"), "ppo-test", "a test", {"epochs": Sourced(7, "a paper"), "clip": Sourced(0.1, "a paper")}
    )
    assert differences(recipe) == [("epochs", "7", "3", "passes", "a paper")]


def test_another_environment_is_refused_with_the_recipe_that_has_values_for_it() -> None:
    with pytest.raises(
        UsageError,
        match=r"^--env is CartPole-v1, and ppo-8x256 has a paper's values for Atari games \(ALE/\.\.\.\) alone: give "
        r"such a game, or take ppo, which",
    ):
        veldt.train("ppo-8x256", env="CartPole-v1")


def test_a_message_that_names_recipes_names_no_paper_recipe() -> None:
    with pytest.raises(UsageError, match=r"take a recipe that has it \(a2c, a3c, ga3c, impala\), or leave"):
        veldt.train("ppo", env="CartPole-v1", rmsprop_initial=0.0)


def test_they_are_listed_apart_from_the_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["recipes"])
    recipes, of_papers = capsys.readouterr().out.split("\nPaper recipes")
    assert [line.split()[0] for line in of_papers.splitlines()[3:]] == [one.name for one in OF_PAPERS]
    assert all(f" {name} " in recipes for name in plain_recipes()) and "ppo-8x256" not in recipes


def test_its_table_ends_with_the_settings_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    main(["recipes", "dqn-512"])
    assert capsys.readouterr().out.splitlines()[-1] == (
        "These are the values for Atari; they differ from dqn's in batch_size, learning_rate, scale_learning_rate."
    )
