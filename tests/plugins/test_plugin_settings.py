"""Settings classes of plug-ins: made once with the user's values, and kept apart from a recipe's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, make_dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import pytest

import veldt
from veldt.algorithms.base import Algorithm
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.registry import ALGORITHMS
from veldt.algorithms.settings import AlgorithmConfig
from veldt.cli import main
from veldt.cli.verbs.training import Launch, Resume
from veldt.config.system_registry import SYSTEMS
from veldt.config.system_settings import RolesConfig
from veldt.config.train_config import NetworkConfig
from veldt.errors import UsageError
from veldt.recipes import RECIPES, Recipe, Sourced, find
from veldt.recipes.overrides import build_config
from veldt.recipes.taken_names import ARGUMENTS
from veldt.setting_metadata import Range, Unit


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Removes what a test has registered."""
    registries = (ALGORITHMS, SYSTEMS, RECIPES)
    before = [(dict(each), {name: each._origins[name] for name in each}) for each in registries]
    yield
    for registry, (parts, origins) in zip(registries, before, strict=True):
        registry._parts, registry._origins = parts, origins  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class Ordered(PPOConfig):
    low: int = 1
    """The lower limit."""
    high: int = 2
    """The upper limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low <= self.high:
            raise UsageError(f"--low is {self.low} and --high is {self.high}: the first must be the smaller")
        if not self.high <= self.epochs:
            raise UsageError(f"--high is {self.high}: it must be at most --epochs, {self.epochs}")


@dataclass(frozen=True, kw_only=True)
class Longer(DQNConfig):
    n_step: int = 5
    """Number of rewards in an n-step return."""
    own: float = 0.5
    """A setting of its own."""


@dataclass(frozen=True, kw_only=True)
class Apart(DQNConfig):
    is_family = False


def settings_class(base: type[Any], **fields: Any) -> type[Any]:
    """A subclass of a settings class with further fields."""
    typed = [(name, type(value), field(default=value)) for name, value in fields.items()]
    return make_dataclass("Own", typed, bases=(base,), frozen=True, kw_only=True)


class Mine(PPO):
    name = "mine"


class MineOffPolicy(DQN):
    name = "mine"


def register(algorithm: type[Algorithm], settings: type[AlgorithmConfig], **values: Any) -> None:
    veldt.register_algorithm("mine", algorithm, settings)
    sourced = {name: Sourced(value, "measured here") for name, value in values.items()}
    system = find("ppo").system
    veldt.register_recipe(Recipe("mine", "mine", system, "Mine", atari=sourced, small=sourced))


def test_a_recipe_s_values_are_checked_with_the_user_s_in_their_place() -> None:
    """One of the user's beside the recipe's others is not what the user asked for."""
    register(Mine, Ordered, epochs=2)
    draft = find("mine").draft("CartPole-v1")
    learn: Any = build_config(draft, {"low": 5, "high": 10, "epochs": 20}).learn
    assert (learn.low, learn.high, learn.epochs) == (5, 10, 20)
    with pytest.raises(UsageError, match="--high is 3: it must be at most --epochs, 2"):
        build_config(draft, {"high": 3})
    with pytest.raises(UsageError, match="--low is 5 and --high is 2"):
        build_config(draft, {"low": 5, "epochs": 20})


def test_a_recipe_s_values_are_checked_beside_each_other_when_it_is_registered() -> None:
    with pytest.raises(
        UsageError,
        match=r"^the recipe mine has values of atari that are not allowed: --high is 2: it must be at ",
    ):
        register(Mine, Ordered, epochs=1)
    assert "mine" not in RECIPES


def test_the_command_line_and_python_take_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register(Mine, Ordered, epochs=2)
    main(["recipes", "mine", "--env", "CartPole-v1", "--low", "1", "--high", "3", "--epochs", "3"])
    shown = {
        line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.split()
    }
    assert shown["high"] == ["3", "given"] and shown["low"] == ["1", "given"]
    with pytest.raises(SystemExit):
        main(["train", "mine", "--env", "CartPole-v1", "--help"])
    assert "The upper limit. [2]" in " ".join(capsys.readouterr().out.split())
    run = veldt.train(
        "mine",
        env="CartPole-v1",
        run_dir=tmp_path / "run",
        quiet=True,
        steps=64,
        num_envs=4,
        batch_size=64,
        minibatches=2,
        env_backend="in-process",
        high=3,
        epochs=3,
    )
    assert run.reason == "steps"


@pytest.mark.parametrize("recipe", ["dqn", "apex-dqn", "gorila"])
def test_a_variant_keeps_the_defaults_that_its_class_declares(recipe: str) -> None:
    veldt.register_algorithm("mine", MineOffPolicy, Longer)
    here, learn = find(recipe).config("CartPole-v1").learn, find(recipe).config("CartPole-v1", "mine").learn
    assert isinstance(learn, Longer) and isinstance(here, DQNConfig)
    assert (learn.n_step, learn.own) == (5, 0.5)
    assert (learn.learning_rate, learn.batch_size) == (here.learning_rate, here.batch_size)


def test_a_variant_s_own_recipe_comes_before_its_class() -> None:
    register(MineOffPolicy, Longer, n_step=7, batch_size=16)
    learn: Any = find("apex-dqn").config("CartPole-v1", "mine").learn
    assert (learn.n_step, learn.own) == (7, 0.5)
    assert learn.batch_size == find("apex-dqn").config("CartPole-v1").learn.batch_size  # type: ignore[attr-defined]


def test_a_class_can_leave_its_family() -> None:
    veldt.register_algorithm("mine", MineOffPolicy, Apart)
    assert find("apex-dqn").config("CartPole-v1", "mine").learn == Apart()


def test_a_recipe_may_be_one_of_a_plug_in() -> None:
    with pytest.raises(UsageError, match=r"no recipe 'mine'.*; a plug-in's needs --plugin MODULE$"):
        find("mine")


def test_an_algorithm_is_no_recipe() -> None:
    veldt.register_algorithm("mine", MineOffPolicy, Apart)
    with pytest.raises(
        UsageError, match=r"^'mine' is an algorithm, and no recipe, .*: take --algorithm mine with"
    ):
        find("mine")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": 0.5}, "'seed' for the algorithm mine, and veldt's RunConfig has the name 'seed'"),
        (
            {"learners": 2},
            "'learners' for the algorithm mine, and the system synchronous has the name 'learners'",
        ),
        ({"ops": True}, "'ops' for the algorithm mine, and veldt's AtariConfig has the name 'no_ops'"),
        (
            {"env": ""},
            "'env' for the algorithm mine, and veldt, for an argument that is no setting, has the name 'env'",
        ),
    ],
)
def test_an_algorithm_s_setting_has_a_name_of_its_own(settings: dict[str, Any], message: str) -> None:
    whole = f"^the plug-in {__name__} has a setting {message} already: take another name$"
    with pytest.raises(UsageError, match=whole):
        register(Mine, settings_class(PPOConfig, **settings))
    assert "mine" not in RECIPES
    with pytest.raises(UsageError, match=whole):
        find("ppo").draft("CartPole-v1", "mine")


def test_a_system_s_setting_has_a_name_of_its_own() -> None:
    roles = settings_class(RolesConfig, gamma=0.5)
    veldt.register_system("alone", roles, lambda run_plan, run=None, checkpoint=None: None)
    with pytest.raises(
        UsageError, match=r"'gamma' for the system alone, and the algorithm ppo has the name 'gamma'"
    ):
        veldt.register_recipe(Recipe("mine", "ppo", "alone", "Mine", atari={}, small={}))


def test_an_on_policy_algorithm_may_have_a_setting_called_buffer_size() -> None:
    register(Mine, settings_class(PPOConfig, buffer_size=5))
    learn: Any = build_config(find("mine").draft("CartPole-v1"), {"buffer_size": 7}).learn
    assert learn.buffer_size == 7
    with pytest.raises(UsageError, match=r"--buffer-size is about a replay buffer.*\(dqn, ") as refused:
        build_config(find("ppo").draft("CartPole-v1"), {"buffer_size": 7})
    assert "mine" not in str(refused.value)
    with pytest.raises(UsageError, match="--checkpoint-replay is about a replay buffer"):
        build_config(find("mine").draft("CartPole-v1"), {"checkpoint_replay": "none"})


def test_no_argument_that_is_no_setting_can_be_a_setting() -> None:
    of_functions = {*signature(veldt.train).parameters, *signature(veldt.resume).parameters} - {"settings"}
    of_verbs = {one.name for cls in (Launch, Resume) for one in fields(cls)}
    assert (of_functions | of_verbs) - {one.name for one in fields(NetworkConfig)} <= ARGUMENTS


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (
            Annotated[int, Range],
            r"'own' of the algorithm mine is annotated with the class Range, .*: call it, Ran",
        ),
        (
            Annotated[int, Unit],
            r"is annotated with the class Unit, which has no effect: call it, Unit\(\.\.\.\)",
        ),
        (
            "Nowhere",
            r"^the settings of the algorithm mine, Own, have a type .*\(name 'Nowhere' is not defined\): ",
        ),
    ],
)
def test_annotations_without_effect_are_refused(hint: Any, message: str) -> None:
    settings = make_dataclass("Own", [("own", hint, 1)], bases=(PPOConfig,), frozen=True, kw_only=True)
    with pytest.raises(UsageError, match=message):
        veldt.register_algorithm("mine", Mine, settings)
