"""An exception in a plug-in's code names the part that raised it, wherever the run calls that code."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import veldt
from run_state import SMALL
from veldt.algorithms.base import Algorithm
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.config.system_registry import SYSTEMS
from veldt.errors import NetworkError, PluginError, UsageError
from veldt.recipes import Recipe
from veldt.runtime.roles import failure_of
from veldt.systems.synchronous.graph import synchronous
from veldt.user_code import attribution

ALGORITHM = rf"^algorithm 'mine' \(module {__name__}\) raised in "


@dataclass(frozen=True, kw_only=True)
class Settings(PPOConfig):
    """Settings whose checks and hooks fail as the test chooses."""

    fails: str = ""
    """Where."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fails == "settings":
            raise ValueError("no such value")

    def warn_about(self, metrics: Any) -> str | None:
        if self.fails == "warn_about":
            raise ValueError("no such value")
        return None


class Mine(PPO):
    _config: Settings

    def __init__(self, config: Settings, action: Any) -> None:
        super().__init__(config, action)
        self._fail("constructor")

    def _fail(self, where: str) -> None:
        if self._config.fails == where:
            raise_error()

    def horizon(self, num_envs: int) -> int:
        self._fail("horizon")
        return super().horizon(num_envs)

    def prepare_noise(self, uniform: Any, steps: int | None) -> Any:
        self._fail("prepare_noise")
        return super().prepare_noise(uniform, steps)

    def act(self, forward: Any, observation: Any, noise: Any) -> Any:
        self._fail("act")
        return super().act(forward, observation, noise)

    def minibatches(self, forward: Any, rollout: Any, generator: Any) -> Any:
        self._fail("minibatches")
        return super().minibatches(forward, rollout, generator)

    def loss(self, forward: Any, batch: Any, progress: float) -> Any:
        self._fail("loss")
        if self._config.fails == "exit":
            raise SystemExit(3)
        return super().loss(forward, batch, progress)

    def learning_rate(self, progress: float, batch: int) -> float:
        self._fail("learning_rate")
        return super().learning_rate(progress, batch)


def raise_error() -> None:
    raise ValueError("no such value")


def register(algorithm: type[PPO] = Mine, system: str = "synchronous") -> None:
    veldt.register_algorithm("mine", algorithm, Settings)
    veldt.register_recipe(Recipe("mine", "mine", system, "Mine", atari={}, small={}))


def train(run: Path, **settings: Any) -> veldt.Run:
    given = SMALL | {"env_backend": "in-process", "steps": 300, "quiet": True} | settings
    return veldt.train("mine", env="CartPole-v1", run_dir=run, **given)


@pytest.mark.parametrize(
    ("fails", "function"),
    [
        ("settings", "Settings.__post_init__"),
        ("constructor", "raise_error"),
        ("horizon", "raise_error"),
        ("prepare_noise", "raise_error"),
        ("act", "raise_error"),
        ("minibatches", "raise_error"),
        ("loss", "raise_error"),
        ("learning_rate", "raise_error"),
        ("warn_about", "Settings.warn_about"),
    ],
)
def test_an_exception_in_an_algorithm_s_code_names_it(fails: str, function: str, tmp_path: Path) -> None:
    register()
    with pytest.raises(PluginError, match=rf"{ALGORITHM}{function}: ValueError: no such value") as failed:
        train(tmp_path / "run", fails=fails)
    assert isinstance(failed.value.__cause__, ValueError) and f'"{__file__}"' in failed.value.details


def test_an_exit_in_an_algorithm_s_code_names_it(tmp_path: Path) -> None:
    register()
    with pytest.raises(PluginError, match=rf"{ALGORITHM}Mine.loss: SystemExit: 3"):
        train(tmp_path / "run", fails="exit")


class LacksProgress(Mine):
    def loss(self, forward: Any, batch: Any) -> Any:  # type: ignore[override]
        return None


class LacksLearningRate(Mine):
    learning_rate = Algorithm.learning_rate  # type: ignore[assignment]


def test_a_method_with_other_parameters_names_the_algorithm(tmp_path: Path) -> None:
    """Python raises the error before the method has begun."""
    register(LacksProgress)
    with pytest.raises(PluginError, match=rf"{ALGORITHM}LacksProgress.loss: TypeError: .*4 were given"):
        train(tmp_path / "run")


def test_a_class_without_a_method_is_refused() -> None:
    with pytest.raises(UsageError, match="is LacksLearningRate, which does not define learning_rate: do so"):
        register(LacksLearningRate)


def test_a_failed_run_says_how_to_resume(tmp_path: Path) -> None:
    register()
    with pytest.raises(PluginError, match=ALGORITHM) as failed:
        train(tmp_path / "run", fails="warn_about")
    assert any("veldt resume" in note for note in failed.value.__notes__)


def test_an_exception_in_a_role_s_process_names_the_part(tmp_path: Path) -> None:
    """What the process sends is made from the exception as it is in this one."""
    register()
    mine = Mine.__new__(Mine)
    mine._config = dataclasses.replace(Settings(), fails="loss")
    try:
        mine.loss(None, None, 0.0)
    except ValueError as error:
        failure = failure_of(error)
    assert failure.error == (
        f"algorithm 'mine' (module {__name__}) raised in raise_error: ValueError: no such value"
    )
    assert "in raise_error" in failure.details and not failure.is_final


class FailsInTraining(nn.Module):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0], 8)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        if len(observation) > 2:  # more than the rows that try it out
            raise ValueError("too many rows")
        features: torch.Tensor = self.layer(observation)
        return features


def test_an_exception_in_a_plug_in_s_network_names_it(tmp_path: Path) -> None:
    veldt.register_network("fails", FailsInTraining)
    named = rf"^network 'fails' \(module {__name__}\) raised in FailsInTraining.forward: ValueError: too many"
    settings = {name: value for name, value in SMALL.items() if name != "hidden"}
    with pytest.raises(NetworkError, match=named) as failed:
        veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", network="fails", **settings)
    assert f'"{__file__}"' in failed.value.details


def failing_graph(run_plan: Any, run: Any = None, checkpoint: Any = None) -> Any:
    if run is not None:  # when the run begins
        raise ValueError("no graph")
    return synchronous(run_plan, run, checkpoint)


def test_an_exception_in_a_system_s_graph_names_it(tmp_path: Path) -> None:
    veldt.register_algorithm("mine", Mine, Settings)
    veldt.register_system("own-system", SYSTEMS["synchronous"].settings, failing_graph)
    veldt.register_recipe(Recipe("mine", "mine", "own-system", "Mine", atari={}, small={}))
    named = rf"^system 'own-system' \(module {__name__}\) raised in failing_graph: ValueError: no graph"
    with pytest.raises(PluginError, match=named):
        train(tmp_path / "run")


def test_evaluate_names_the_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register()
    run = train(tmp_path / "run")
    monkeypatch.setattr(Mine, "act", lambda *_: raise_error())
    with pytest.raises(PluginError, match=rf"{ALGORITHM}raise_error: ValueError"):
        veldt.evaluate(run.path, episodes=1)


def test_an_exception_of_other_code_passes_as_it_is() -> None:
    attribution.record_part("algorithm 'another'", "another_module", [PPO])
    with pytest.raises(ValueError, match="invalid literal"), attribution.naming_user_code():
        int("no number")


def test_an_inherited_method_that_fails_names_the_class_that_has_inherited_it() -> None:
    """As where its network has other outputs than the method takes: no code of the plug-in's is running then."""
    inheriting: Any = type("Inheriting", (PPO,), {"__module__": "elsewhere"})
    attribution.record_part("algorithm 'inherits'", "elsewhere", [inheriting])
    made = object.__new__(inheriting)
    made._config = None
    with (
        pytest.raises(
            PluginError, match=r"^algorithm 'inherits' raised in PPO.horizon: AttributeError: 'NoneT"
        ),
        attribution.naming_user_code(),
    ):
        made.horizon(4)


def small_network(shape: Any) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 8), nn.Tanh())


def test_other_code_of_the_module_of_a_network_is_not_the_network() -> None:
    attribution.record_part("network 'small'", __name__, [small_network, nn.Sequential], NetworkError)
    with pytest.raises(ValueError, match="no such value"), attribution.naming_user_code():
        raise_error()


class Layer(nn.Module):
    """A layer that only the network's function knows."""

    def forward(self, rows: Any) -> Any:
        return raise_error()


def test_a_layer_of_a_network_is_the_network() -> None:
    attribution.record_part("network 'small'", __name__, [small_network, nn.Sequential], NetworkError)
    with (
        pytest.raises(NetworkError, match="network 'small' raised in raise_error"),
        attribution.naming_user_code(),
    ):
        nn.Sequential(Layer())(torch.zeros(1, 4))
