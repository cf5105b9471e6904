"""Settings classes of plug-ins: made once with the user's values, and kept apart from a recipe's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import veldt
from veldt.algorithms.base import Algorithm
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.registry import ALGORITHMS
from veldt.algorithms.settings import AlgorithmConfig
from veldt.cli import main
from veldt.config.system_registry import SYSTEMS
from veldt.errors import UsageError
from veldt.recipes import RECIPES, Recipe, Sourced, find
from veldt.recipes.overrides import build_config


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
    """Neither the recipe's values alone nor one of the user's beside the other is what the user asked for."""
    register(Mine, Ordered, epochs=1)
    draft = find("mine").draft("CartPole-v1")
    learn: Any = build_config(draft, {"low": 5, "high": 10, "epochs": 20}).learn
    assert (learn.low, learn.high, learn.epochs) == (5, 10, 20)
    with pytest.raises(UsageError, match="--high is 2: it must be at most --epochs, 1"):
        build_config(draft, {})
    with pytest.raises(UsageError, match="--low is 5 and --high is 2"):
        build_config(draft, {"low": 5, "epochs": 20})


def test_the_command_line_and_python_take_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register(Mine, Ordered, epochs=1)
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
