"""An algorithm of the user's own that returns something of another kind is refused in one sentence that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veldt
from run_state import SMALL, SMALL_REPLAYED
from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.base import Loss, OnPolicy
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.groups import ParameterGroup, TargetNetwork
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.errors import PluginError, UsageError
from veldt.functional.updates import Adam
from veldt.learning.checked_results import check_taken_and_best, checked_first_priorities
from veldt.recipes import Recipe


def train(algorithm: type[Any], config: type[Any], run: Path, **settings: Any) -> None:
    veldt.register_algorithm("mine", algorithm, config)
    veldt.register_recipe(Recipe("mine", "mine", "synchronous", "Mine", atari={}, small={}))
    small = SMALL if config is PPOConfig else SMALL_REPLAYED
    given = small | {"env_backend": "in-process", "steps": 300, "quiet": True} | settings
    veldt.train("mine", env="CartPole-v1", run_dir=run, **given)


def refused(run: Path, match: str, **members: Any) -> None:
    """Trains PPO with other members, and expects the sentence."""
    with pytest.raises(UsageError, match=match):
        train(type("Mine", (PPO,), members), PPOConfig, run)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda action, extras: action,
            r"returned int64 \[4\] for 4 observations: .* a tensor \[4\] of whole",
        ),
        (lambda action, extras: (action, extras, 0), "returned a tuple of 3 for 4 observations"),
        (lambda action, extras: (action.float(), extras), r"returned actions of float32 \[4\]"),
        (lambda action, extras: (action[:, None], extras), r"returned actions of int64 \[4, 1\]"),
        (lambda action, extras: (action.numpy(), extras), "returned actions of type ndarray"),
        (lambda action, extras: (action, None), "returned extras of type NoneType"),
        (
            lambda action, extras: (action, extras | {"mine": torch.zeros(1)}),
            r"returned the extra 'mine' of float32 \[1\]",
        ),
    ],
)
def test_actions(change: Any, sentence: str, tmp_path: Path) -> None:
    """Numbers of another kind would be rounded, and a single row broadcast to all envs, without a word."""

    def act(self: Any, forward: Any, observation: Any, noise: Any) -> Any:
        return change(*PPO.act(self, forward, observation, noise))

    refused(tmp_path / "run", f"^mine: Mine.act {sentence}", act=act)


def test_actions_in_ga3c(tmp_path: Path) -> None:
    """Whose plan acts once, for the sizes of what the agents store."""

    class Mine(A2C):
        def act(self, forward: Any, observation: Any, noise: Any) -> Any:
            return super().act(forward, observation, noise)[0]

    veldt.register_algorithm("mine", Mine, A2CConfig)
    veldt.register_recipe(Recipe("mine", "mine", "ga3c", "Mine", atari={}, small={}))
    with pytest.raises(UsageError, match=r"^mine: Mine.act returned int64 \[1\] for 1 observations"):
        veldt.train("mine", env="CartPole-v1", run_dir=tmp_path / "run", steps=100, num_envs=4, quiet=True)


@pytest.mark.parametrize("wrong", [2, -1])
def test_an_action_that_there_is_not_is_the_algorithms(wrong: int, tmp_path: Path) -> None:
    """The environment would be blamed, and restarted."""

    def act(self: Any, forward: Any, observation: Any, noise: Any) -> Any:
        action, extras = PPO.act(self, forward, observation, noise)
        return torch.full_like(action, wrong), extras

    refused(
        tmp_path / "run", f"^mine: Mine.act returned the action {wrong}: actions are whole numbers", act=act
    )


def test_an_algorithm_without_its_methods() -> None:
    class Mine(OnPolicy):
        capabilities = PPO.capabilities

        def act(self, forward: Any, observation: Any, noise: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(
        UsageError, match=r"is Mine, which does not define __init__, best_action, horizon, .*: do so"
    ):
        veldt.register_algorithm("mine", Mine, PPOConfig)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda loss: loss.total, r"returned a tensor \[\]: return veldt.algorithms.base.Loss"),
        (lambda loss: Loss(loss.total.expand(3), {}), r"returned a loss of the shape \[3\]"),
        (lambda loss: Loss(loss.total.detach(), {}), "returned a loss that depends on no parameter"),
        (lambda loss: Loss(loss.total * 1j, {}), "returned a loss of complex64: it must be of real numbers"),
        (lambda loss: Loss(loss.total, None), "returned metrics of type NoneType"),  # type: ignore[arg-type]
        (lambda loss: Loss(loss.total, {1: 2.0}), "returned a metric named 1: its name must be a string"),  # type: ignore[dict-item]
        (lambda loss: Loss(loss.total, {"": 2.0}), "returned a metric named '': its name must be a string"),
        (lambda loss: Loss(loss.total, {"mine": "x"}), "returned the metric 'mine' as 'x'"),  # type: ignore[dict-item]
        (
            lambda loss: Loss(loss.total, {"mine": torch.zeros(3)}),
            r"returned the metric 'mine' as a tensor \[3\]",
        ),
        (lambda loss: Loss(loss.total, {}, torch.zeros(4, 1)), r"returned priorities as a tensor \[4, 1\]"),
    ],
)
def test_losses(change: Any, sentence: str, tmp_path: Path) -> None:
    def loss(self: Any, forward: Any, batch: Any, progress: float) -> Any:
        return change(PPO.loss(self, forward, batch, progress))

    refused(tmp_path / "run", f"^mine: the loss of Mine {sentence}", loss=loss)


def test_a_gradient_that_torch_cannot_compute_names_the_algorithm(tmp_path: Path) -> None:
    def loss(self: Any, forward: Any, batch: Any, progress: float) -> Any:
        computed = PPO.loss(self, forward, batch, progress)
        computed.total.backward()
        return computed

    with pytest.raises(
        PluginError,
        match=r"^mine: the gradient of the loss of Mine cannot be computed \(RuntimeError: Trying to",
    ):
        train(type("Mine", (PPO,), {"loss": loss}), PPOConfig, tmp_path / "run")


@pytest.mark.filterwarnings("error")
def test_a_metric_may_have_a_gradient_or_be_a_plain_number(tmp_path: Path) -> None:
    def loss(self: Any, forward: Any, batch: Any, progress: float) -> Any:
        computed = PPO.loss(self, forward, batch, progress)
        return computed._replace(metrics={"mine": computed.total, "half": 0.5})

    train(type("Mine", (PPO,), {"loss": loss}), PPOConfig, tmp_path / "run")


@pytest.mark.parametrize(
    ("member", "returned", "sentence"),
    [
        ("horizon", 0, r"^mine: Mine.horizon\(4\) returned 0: it must be a whole number"),
        ("horizon", 2.5, "returned 2.5"),
        (
            "update_rows",
            None,
            r"^mine: Mine.update_rows\(4\) returned None: it must be a whole number of rows",
        ),
        ("network", None, "^mine: Mine.network returned None: it must return an nn.Module"),
        ("network", torch.nn.Identity(), "returned a module without parameters"),
        (
            "prepare_noise",
            None,
            r"Mine.prepare_noise returned type NoneType for uniform numbers \[16, 4, 'K'\]",
        ),
        ("action_noise", None, "^mine: Mine.action_noise returned None: it must be a whole number, how many"),
        ("action_noise", -1, "returned -1"),
        ("learning_rate", -1.0, "all is -1.0: `learning_rate` must return a number, 0 or more"),
        ("learning_rate", None, "learning rate of the parameter group all is None"),
    ],
)
def test_other_members(member: str, returned: Any, sentence: str, tmp_path: Path) -> None:
    """Without a learning rate the parameters would not move."""
    refused(tmp_path / "run", sentence, **{member: lambda *arguments: returned})


@pytest.mark.parametrize(
    ("member", "value", "sentence"),
    [
        ("target_networks", None, "target_networks are None: they must be a dictionary of"),
        ("target_networks", {"slow": 0.5}, r"target_networks are {'slow': 0.5}: they must be a dictionary"),
        ("groups", [Adam()], r"groups are \[Adam\(.*\]: they must be a list of"),
        ("groups", lambda self: (), "^the algorithm's groups are a method without @property: they must"),
        ("target_networks", lambda self: {}, "target_networks are a method without @property: they must"),
        ("act", None, "^the algorithm mine is Mine, whose act is None: it must be a method"),
        ("loss", 0.5, "^the algorithm mine is Mine, whose loss is 0.5: it must be a method"),
    ],
)
def test_members_of_another_kind(member: str, value: Any, sentence: str, tmp_path: Path) -> None:
    refused(tmp_path / "run", sentence, **{member: value})
    assert not (tmp_path / "run").exists()


def without_noisy_layers(self: Any, build_torso: Any) -> Any:
    torso = build_torso(activation="relu")
    return torch.nn.Sequential(torso, torch.nn.Linear(torso.features, 2))


@pytest.mark.parametrize(
    ("members", "settings", "sentence"),
    [
        (
            {"network": without_noisy_layers},
            {"noisy": True},
            "^--noisy is on, and the network of Mine has no noisy la",
        ),
        (
            {"row_noise": lambda *_: None},
            {},
            "^mine: Mine.row_noise returned None: it must be a whole number",
        ),
        ({"groups": [ParameterGroup("head", Adam(), ("head.",))]}, {}, "belongs to no parameter group"),
        (
            {"target_networks": {"slow": TargetNetwork(1, 1.0, "slow.")}},
            {},
            "the target network slow has no para",
        ),
    ],
)
def test_what_does_not_fit_the_network_is_refused_before_a_process_starts(
    members: dict[str, Any], settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    veldt.register_algorithm("mine", type("Mine", (DQN,), members), DQNConfig)
    veldt.register_recipe(Recipe("mine", "mine", "apex", "Mine", atari={}, small={}))
    with pytest.raises(UsageError, match=sentence):
        veldt.train("mine", env="CartPole-v1", run_dir=tmp_path / "run", steps=300, quiet=True, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("replay", ["uniform", "prioritised"])
def test_prioritised_replay_needs_priorities(replay: str, tmp_path: Path) -> None:
    def loss(self: Any, forward: Any, batch: Any, progress: float) -> Any:
        return DQN.loss(self, forward, batch, progress)._replace(priority=None)

    def run() -> None:
        train(type("Mine", (DQN,), {"loss": loss}), DQNConfig, tmp_path / "run", replay=replay)

    if replay == "uniform":
        run()
    else:
        with pytest.raises(UsageError, match="returned no priorities, and --replay is prioritised"):
            run()


def test_priorities_may_have_gradients_and_another_type(tmp_path: Path) -> None:
    """As errors have that a network has computed with `--precision bf16`."""

    def loss(self: Any, forward: Any, batch: Any, progress: float) -> Any:
        computed = DQN.loss(self, forward, batch, progress)
        priority = None if computed.priority is None else computed.priority.bfloat16().requires_grad_()
        return computed._replace(priority=priority)

    train(type("Mine", (DQN,), {"loss": loss}), DQNConfig, tmp_path / "run", replay="prioritised")


@pytest.mark.parametrize("method", ["update_noise", "row_noise"])
def test_noise_of_updates(method: str, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=f"^mine: Mine.{method} returned None: it must be a whole number, how"
    ):
        train(type("Mine", (DQN,), {method: lambda *_: None}), DQNConfig, tmp_path / "run")


def test_one_priority_for_each_row(tmp_path: Path) -> None:
    def loss(self: Any, forward: Any, batch: Any, progress: float) -> Any:
        computed = DQN.loss(self, forward, batch, progress)
        return computed._replace(priority=None if computed.priority is None else computed.priority[:3])

    with pytest.raises(UsageError, match="returned 3 priorities for 16 rows: return a tensor"):
        train(type("Mine", (DQN,), {"loss": loss}), DQNConfig, tmp_path / "run", replay="prioritised")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda action: None,
            r"returned actions of type NoneType for 1 observations: .* a tensor \[1\] of whole",
        ),
        (lambda action: action.float(), r"returned actions of float32 \[1\]"),
        (lambda action: action + 7, r"returned the action \d: actions are whole numbers from 0 on, below 2"),
    ],
)
def test_the_best_action(change: Any, sentence: str, tmp_path: Path) -> None:
    def best_action(self: Any, forward: Any, observation: Any) -> Any:
        return change(PPO.best_action(self, forward, observation))

    train(type("Mine", (PPO,), {"best_action": best_action}), PPOConfig, tmp_path / "run")
    with pytest.raises(UsageError, match=f"^mine: Mine.best_action {sentence}"):
        veldt.load(tmp_path / "run").act(np.zeros(4, np.float32), greedy=True)


@pytest.mark.parametrize(
    ("base", "method", "returned", "sentence"),
    [
        (PPO, "minibatches", None, "returned None: it must yield the batch of each update"),
        (PPO, "minibatches", torch.zeros(2), r"returned a tensor \[2\]: it must yield"),
        (
            PPO,
            "minibatches",
            [],
            "yielded no batch: it must yield the batch of each update, and at least one",
        ),
        (PPO, "minibatches", [None], "yielded no batch: it must"),
        (PPO, "scored_envs", None, "returned None: it must return the numbers of envs"),
        (DQN, "exploration", None, "returned None: it must return a dictionary of numbers"),
        (DQN, "exploration", {"epsilon": "x"}, "returned a dictionary of 'epsilon': 'x': it must"),
    ],
)
def test_results_of_training(
    base: type[Any], method: str, returned: Any, sentence: str, tmp_path: Path
) -> None:
    config = PPOConfig if base is PPO else DQNConfig
    with pytest.raises(UsageError, match=f"^mine: Mine.{method} {sentence}"):
        train(type("Mine", (base,), {method: lambda *_: returned}), config, tmp_path / "run")


def test_minibatches_may_be_a_list(tmp_path: Path) -> None:
    class Mine(A2C):
        def minibatches(self, *arguments: Any) -> Any:
            return list(super().minibatches(*arguments))

    veldt.register_algorithm("mine", Mine, A2CConfig)
    veldt.register_recipe(Recipe("mine", "mine", "synchronous", "Mine", atari={}, small={}))
    run = veldt.train("mine", env="CartPole-v1", run_dir=tmp_path / "run", steps=100, num_envs=4, quiet=True)
    assert run.reason == "steps"


@pytest.mark.parametrize(
    ("method", "asked", "returned", "sentence"),
    [
        ("value", "value", None, r"returned None: it must return a tensor \[1\]"),
        ("value", "value", torch.zeros(1, 1), r"returned a tensor \[1, 1\]: it must return a tensor \[1\]"),
        (
            "action_values",
            "action_values",
            torch.zeros(2),
            r"returned a tensor \[2\]: it must return a tensor",
        ),
        ("policy", "distribution", {"mean": None}, "returned a dictionary of 'mean': None: it must return"),
    ],
)
def test_estimates(method: str, asked: str, returned: Any, sentence: str, tmp_path: Path) -> None:
    """A value of the shape [1, 1] would be an array in the place of a number."""
    train(type("Mine", (PPO,), {method: lambda *_: returned}), PPOConfig, tmp_path / "run")
    with pytest.raises(UsageError, match=f"^mine: Mine.{method} {sentence}"):
        getattr(veldt.load(tmp_path / "run"), asked)(np.zeros(4, np.float32))


def test_first_priorities() -> None:
    """Of actors in Ape-X."""
    algorithm: Any = object.__new__(type("Mine", (DQN,), {"name": "mine"}))
    with pytest.raises(
        UsageError, match=r"first_priorities returned a tensor \[3, 1\]: it must return a tensor"
    ):
        checked_first_priorities(torch.zeros(3, 1), 3, algorithm)
    with pytest.raises(
        UsageError, match="act_with_values returned the extras taken, without 'best': it must"
    ):
        check_taken_and_best({"taken": torch.zeros(3)}, algorithm)
    check_taken_and_best({"taken": torch.zeros(3), "best": torch.zeros(3)}, algorithm)


class NoBase(DQN):
    def __init__(self, config: Any, action: Any) -> None:
        self._actions = action.sizes[0]


def test_a_constructor_that_does_not_call_that_of_the_base_class(tmp_path: Path) -> None:
    with pytest.raises(
        PluginError, match=r"'mine' \(module .*\) raised in NoBase: AttributeError: 'NoBase' object has"
    ):
        train(NoBase, DQNConfig, tmp_path / "run")
