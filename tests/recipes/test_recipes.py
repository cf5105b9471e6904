"""Every value of a recipe is a setting that exists, with a source, and makes a configuration."""

from __future__ import annotations

import dataclasses

import pytest

import veldt
from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.c51 import RainbowConfig
from veldt.algorithms.dqn import DQNConfig
from veldt.algorithms.registry import ALGORITHMS
from veldt.cli import main
from veldt.config.fit import incompatibility
from veldt.config.run_request import RunRequest
from veldt.config.train_config import TrainConfig
from veldt.envs.source import resolve
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.schedules import parse
from veldt.recipes import RECIPES, Recipe, derived_of, find, plain_recipes
from veldt.recipes.env_family import family_of
from veldt.recipes.recipe import Sourced
from veldt.replay.settings import ReplayConfig
from veldt.systems.planning.checks import check_request

ENVS = ("ALE/Breakout-v5", "CartPole-v1", "LunarLander-v3", "Taxi-v4", "Pendulum-v1", "Hopper-v5")
SECTIONS = ("run", "learn", "replay", "network", "envs", "atari", "roles")
PAIRS = [
    (recipe, algorithm)
    for recipe in plain_recipes().values()
    for algorithm in ALGORITHMS
    if incompatibility(recipe.system, algorithm) is None
]
each_recipe = pytest.mark.parametrize("recipe", plain_recipes().values(), ids=lambda recipe: recipe.name)
each_env = pytest.mark.parametrize("env", ENVS)


def owners(config: TrainConfig, name: str) -> list[object]:
    """The values of all settings of that name."""
    parts = [part for section in SECTIONS if (part := getattr(config, section)) is not None]
    return [getattr(part, name) for part in parts if name in {f.name for f in dataclasses.fields(part)}]


@each_recipe
@each_env
def test_every_value_arrives_in_the_configuration(recipe: Recipe, env: str) -> None:
    config = recipe.config(env)
    assert (config.recipe, config.algorithm, config.system) == (recipe.name, recipe.algorithm, recipe.system)
    assert config.env == env
    for name, setting in recipe.settings(env).items():
        assert owners(config, name) == [setting.value], name


@each_recipe
@each_env
def test_no_recipe_sets_what_would_have_no_effect(recipe: Recipe, env: str) -> None:
    """Each value could be given by a user: none is refused as one that is not read beside the others."""
    given = {name: setting.value for name, setting in recipe.settings(env).items()}
    check_request(RunRequest(recipe.config(env), resolve(env), given=given), None)


@pytest.mark.parametrize(("recipe", "algorithm"), PAIRS, ids=lambda part: getattr(part, "name", part))
@each_env
def test_every_algorithm_that_fits_has_settings_that_fit(recipe: Recipe, env: str, algorithm: str) -> None:
    config = recipe.config(env, algorithm)
    assert (config.algorithm, config.system) == (algorithm, recipe.system)
    if recipe.preset_of(env) is None and recipe.preset_of(env, algorithm) is None:
        assert config.envs.num_envs == recipe.config(env).envs.num_envs


@pytest.mark.parametrize(
    ("recipe", "algorithm", "as_in"),
    [
        ("a3c", "ppo", "appo"),  # of the same system
        ("a3c", "dqn", "async-dqn"),
        ("gorila", "ppo", "ppo"),  # nothing nearer than its own
        ("ga3c", "vtrace", "impala"),
        ("appo", "a2c", "a3c"),
        ("dqn", "c51", "c51"),
    ],
)
def test_another_algorithm_gets_the_settings_of_the_nearest_recipe(
    recipe: str, algorithm: str, as_in: str
) -> None:
    """RMSProp's step size is not used for Adam, nor a batch of transitions for a rollout's rows. Of another system's
    recipe it gets no presets, which this system may refuse."""
    nearest = find(as_in)
    if nearest.system != find(recipe).system:
        nearest = dataclasses.replace(nearest, presets={})
    for env in ENVS:
        assert find(recipe).config(env, algorithm).learn == nearest.config(env).learn


def test_a_variant_of_q_learning_learns_by_the_settings_that_both_have() -> None:
    for env in ENVS:
        variant = find("async-dqn").config(env, "rainbow").learn
        assert isinstance(variant, RainbowConfig)
        own, alone = find("async-dqn").config(env).learn, find("rainbow").config(env).learn
        assert isinstance(own, DQNConfig) and isinstance(alone, RainbowConfig)
        assert (variant.batch_size, variant.learning_rate) == (own.batch_size, own.learning_rate)
        assert variant.value_max == alone.value_max


@each_recipe
@each_env
def test_every_value_has_a_source(recipe: Recipe, env: str) -> None:
    for name, setting in recipe.settings(env).items():
        assert setting.source.strip(), name


@each_recipe
@each_env
def test_every_value_has_the_type_of_its_setting(recipe: Recipe, env: str) -> None:
    config = recipe.config(env)
    replay = None if config.replay is None else ReplayConfig()
    defaults = TrainConfig(
        recipe="",
        algorithm=recipe.algorithm,
        system=recipe.system,
        env="",
        learn=type(config.learn)(),
        replay=replay,
        roles=None if config.roles is None else type(config.roles)(),
    )
    for name, setting in recipe.settings(env).items():
        kind = type(owners(defaults, name)[0])
        is_schedule = kind is float and isinstance(setting.value, str) and parse(setting.value) is not None
        assert type(setting.value) is kind or is_schedule, name


@each_recipe
def test_the_environment_decides_the_variant(recipe: Recipe) -> None:
    assert recipe.settings("ALE/Pong-v5") is recipe.atari
    assert recipe.settings("Acrobot-v1") is recipe.small
    assert recipe.settings("my_module:make_env") is recipe.small
    assert recipe.settings("NoSuchEnv-v0") is recipe.small


@pytest.mark.parametrize(
    ("env", "family"),
    [
        ("CartPole-v1", "classic_control"),
        ("LunarLander-v3", "box2d"),
        ("Taxi-v4", "toy_text"),
        ("HalfCheetah-v5", "mujoco"),
        ("my_module:make_env", None),
        ("NoSuchEnv-v0", None),
        ("ALE/Pong-v5", None),
        ("GymV21Environment-v0", None),
    ],
)
def test_the_family_of_an_env_is_known_without_making_it(env: str, family: str | None) -> None:
    assert family_of(env) == family


def test_the_most_specific_preset_wins() -> None:
    """An id is more specific than its family; both change some of the values for small environments."""
    presets = {
        "box2d": {"gamma": Sourced(0.97, "a test"), "n_step": Sourced(2, "a test")},
        "BipedalWalker-v3": {"gamma": Sourced(0.96, "a test")},
    }
    recipe = dataclasses.replace(RECIPES["dqn"], presets=presets)
    small = recipe.small["n_step"].value
    for env, gamma, n_step, values_for in [
        ("LunarLander-v3", 0.97, 2, "Box2D"),
        ("BipedalWalker-v3", 0.96, small, "BipedalWalker-v3"),
        ("CartPole-v1", recipe.small["gamma"].value, small, "small environments"),
        ("ALE/Pong-v5", recipe.atari["gamma"].value, 1, "Atari"),
    ]:
        learn = recipe.config(env).learn
        assert isinstance(learn, DQNConfig)
        assert (learn.gamma, learn.n_step, recipe.values_for(env)) == (gamma, n_step, values_for)


def test_every_preset_has_values_that_are_allowed() -> None:
    for recipe in RECIPES.values():
        for key in recipe.presets:
            assert recipe.config(key).env == key


def test_a_preset_is_taken_in_full_or_not_at_all() -> None:
    """Another algorithm has the whole preset of the recipe that it learns by, and nothing of this recipe's preset."""
    ppo, a2c = RECIPES["ppo"], RECIPES["a2c"]
    env, preset = "HalfCheetah-v5", ppo.presets["mujoco"]
    taken = a2c.settings(env, "ppo")
    assert {name: taken[name] for name in preset} == preset
    assert a2c.values_for(env, "ppo") == "MuJoCo"
    assert a2c.config(env, "ppo").learn == ppo.config(env).learn
    assert RECIPES["ppo"].config("LunarLander-v3", "a2c").envs.num_envs == 8  # as its preset was measured
    other = ppo.settings(env, "a2c")
    assert other == ppo.settings("CartPole-v1", "a2c")
    assert ppo.values_for(env, "a2c") == "small environments"


@each_recipe
def test_sizes_fit_together(recipe: Recipe) -> None:
    """The recipe's own numbers are not refused when training begins."""
    from veldt.envs.spec import ActionSpec

    for env in ENVS:
        config = recipe.config(env)
        discrete, box = (
            ActionSpec("discrete", sizes=(2,), start=(0,)),
            ActionSpec("box", low=(-1.0,), high=(1.0,)),
        )
        own = config.make_algorithm(box if recipe.algorithm == "ddpg" else discrete)
        assert own.name == recipe.algorithm
        assert own.horizon(config.envs.num_envs) >= 1


@each_recipe
@each_env
def test_the_table_shows_every_setting_once(recipe: Recipe, env: str) -> None:
    config = recipe.config(env)
    rows = recipe.table(config)
    parts = [part for section in SECTIONS if (part := getattr(config, section)) is not None]
    fields = [f.name for part in parts for f in dataclasses.fields(part)]
    assert sorted(row[0] for row in rows) == sorted(fields)
    for name, _, _, source in rows:
        given = recipe.settings(env).get(name)
        assert source == (given.source if given else "veldt's default")


def test_the_table_shows_values_and_units() -> None:
    table = RECIPES["a2c"].table(RECIPES["a2c"].config("ALE/Breakout-v5"))
    rows = {name: (value, unit) for name, value, unit, _ in table}
    assert rows["learning_rate"] == ("0.0007", "per update")
    assert rows["steps"] == ("10,000,000", "steps")
    assert rows["terminal_on_life_loss"] == ("yes", "")
    assert rows["hidden"] == ("64 64", "units")


def test_values_derived_from_the_training_intensity_are_shown() -> None:
    """Stooke & Abbeel, A.3: horizon and updates follow from intensity, batch and envs."""
    derived = derived_of(RECIPES["rainbow"].config("ALE/Pong-v5"))
    rows = {name: (value, unit) for name, value, unit, _ in derived}
    assert rows["steps per phase"] == ("4", "steps/env")  # 512 / (8 uses x 16 envs)
    assert rows["updates per phase"] == ("1", "updates")
    assert rows["target moves every"] == ("125", "updates")  # 8,000 steps x 8 uses / 512
    assert derived_of(RECIPES["ppo"].config("ALE/Pong-v5")) == []


def test_the_public_function_lists_them_also_once_this_module_is_imported() -> None:
    """A module of that name would hide it."""
    assert veldt.list_recipes() == {recipe.name: recipe.summary for recipe in RECIPES.values()}


def test_recipes_are_found_by_name_and_suggested() -> None:
    assert find("ppo") is RECIPES["ppo"]
    with pytest.raises(
        UsageError, match=r"no recipe 'pppo' \(did you mean 'ppo'\?\): known are a2c, a3c, ppo"
    ):
        find("pppo")


def test_another_algorithm_in_a_recipe_s_system() -> None:
    """Settings of both algorithms stay, and settings of the new one alone are those of its own recipe."""
    apex, c51 = find("apex-dqn"), find("c51")
    for env in ENVS:
        config, own, other = apex.config(env, "c51"), apex.config(env), c51.config(env)
        assert (config.recipe, config.algorithm, config.system) == ("apex-dqn", "c51", "apex")
        assert config.learn.batch_size == own.learn.batch_size and config.learn.n_step == own.learn.n_step  # type: ignore[union-attr]
        assert config.learn.atoms == other.learn.atoms  # type: ignore[union-attr]
        assert config.learn.value_min == other.learn.value_min  # type: ignore[union-attr]
        assert config.roles == own.roles and config.replay == own.replay
        assert {row[0] for row in apex.table(config)} >= {"atoms", "actors", "n_step"}


def test_ga3c_begins_as_its_authors_code_but_for_the_update_rule() -> None:
    config = find("ga3c").config("ALE/Breakout-v5")
    learn, roles = config.learn, config.roles
    assert (config.algorithm, config.system, config.envs.num_envs) == ("a2c", "ga3c", 32)
    assert (roles.predictors, roles.trainers, roles.prediction_batch) == (2, 2, 128)  # type: ignore[attr-defined]
    assert (roles.training_rows, roles.tuner_interval) == (80, 60.0)  # type: ignore[attr-defined]
    assert (learn.horizon, learn.learning_rate, learn.ent_coef, learn.max_grad_norm) == (5, 7e-4, 0.01, 0.5)  # type: ignore[union-attr]
    assert (learn.rmsprop_decay, learn.vf_coef) == (0.99, 0.5)  # type: ignore[union-attr]
    a2c = find("a2c").config("ALE/Breakout-v5").learn
    for name in ("learning_rate", "max_grad_norm", "rmsprop_epsilon", "rmsprop_initial"):
        assert getattr(learn, name) == getattr(a2c, name)
    for algorithm in ("ppo", "vtrace"):
        assert find("ga3c").config("CartPole-v1", algorithm).system == "ga3c"


def test_algorithms_that_do_not_fit_a_system_are_refused() -> None:
    known = (
        ("apex-dqn", "a2c"),
        ("impala", "dqn"),
        ("impala", "ppo"),
        ("ga3c", "rainbow"),
        ("dqn", "nothing"),
    )
    for recipe, algorithm in known:
        with pytest.raises(UsageError, match=algorithm):
            find(recipe).config("CartPole-v1", algorithm)


def test_the_table_s_last_line_says_for_which_envs_the_values_are(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        ([], "for Atari; `veldt recipes ppo --env Acrobot-v1` shows those for small environments."),
        (["--env", "Acrobot-v1"], "for small environments; `veldt recipes ppo` shows those for Atari."),
    ):
        main(["recipes", "ppo", *arguments])
        assert capsys.readouterr().out.splitlines()[-1] == f"These are the values {said}"


def test_the_learning_rate_of_ga3c_fits_a_single_rollout_too() -> None:
    config = RECIPES["ga3c"].config("CartPole-v1")
    assert isinstance(config.learn, A2CConfig)
    a2c = A2C(config.learn, ActionSpec(kind="discrete", sizes=(2,)))
    assert a2c.learning_rate(0.0, 128) == pytest.approx(3e-3, rel=0.02)
    assert a2c.learning_rate(0.0, 16) == pytest.approx(1.1e-3, rel=0.05)
