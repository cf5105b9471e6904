"""The target network begins as a copy of the learning network, and then moves as the settings say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from q_tables import DISCRETE, transitions

import veldt
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.transitions import QLearningBatch
from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.errors import CheckpointError
from veldt.exchange.gradients import NoAllReduce
from veldt.learning.learner import Learner
from veldt.learning.targets import TargetNetworks
from veldt.networks.build import build_torso
from veldt.networks.flat import FlatParameters
from veldt.networks.precision import apply_precision
from veldt.networks.q_network import QNetwork
from veldt.runs.checkpoints import CheckpointStore

CPU = torch.device("cpu")
SPEC = EnvSpec({"": ArraySpec((6,), "float32")}, DISCRETE)
PRECISION = pytest.mark.parametrize("precision", ["fp32", "bf16"])


class Learning:
    """A learner with a target network, both of the same first weights."""

    def __init__(
        self, precision: str, version_of: Callable[[int], int] = lambda own: own, **settings: Any
    ) -> None:
        config = DQNConfig(dueling=True, batch_size=32, training_intensity=1.0, **settings)
        self.algorithm = DQN(config, DISCRETE)
        self.network, parameters = self._network(precision)
        self.target, self.target_parameters = self._network(precision)
        targets = TargetNetworks(
            self.algorithm.target_networks, parameters, lambda: (self.target, self.target_parameters)
        )
        self.learner = Learner(
            self.algorithm,
            self.network,
            parameters,
            NoAllReduce(),
            targets,
            version_of=version_of,
        )

    def _network(self, precision: str) -> tuple[QNetwork, FlatParameters]:
        torch.manual_seed(0)
        network = self.algorithm.network(functools.partial(build_torso, "mlp", SPEC, (16, 8)))
        assert isinstance(network, QNetwork)
        return network, apply_precision(network, precision, CPU)

    def batch(self, seed: int) -> QLearningBatch:
        drawn = transitions(np.random.default_rng(seed), 32)
        observation = torch.randn(32, 6, generator=torch.Generator().manual_seed(seed))
        return QLearningBatch(observation, drawn.action, drawn.reward, drawn.weight, drawn.noise[:1])

    def update(self, seed: int) -> None:
        self.learner.update(self.batch(seed), 0.0, 1e-2)

    def target_weights(self) -> dict[str, np.ndarray]:
        return {name.removeprefix("target/"): array for name, array in self.learner.target_weights().items()}


def equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in one)


@PRECISION
@pytest.mark.parametrize("every", [1, 3])
def test_it_is_copied_every_interval_and_unchanged_in_between(precision: str, every: int) -> None:
    own = Learning(precision, target_update_interval=every * 32)
    kept = own.target_weights()
    for update in range(1, 10):
        own.update(update)
        now = own.target_weights()
        assert not equal(own.learner.weights(), kept)
        assert equal(now, own.learner.weights() if update % every == 0 else kept)
        kept = now


@PRECISION
def test_polyak_averaging(precision: str) -> None:
    """θ' ← τ θ + (1 - τ) θ' (Lillicrap et al. 2016, algorithm 1), in fp32: steps below bf16's resolution add up."""
    own = Learning(precision, target_update_interval=64, tau=0.01)
    expected = own.target_weights()
    for update in range(1, 9):
        own.update(update)
        if update % 2 == 0:
            learned = own.learner.weights()
            expected = {name: 0.99 * old + 0.01 * learned[name] for name, old in expected.items()}
        for name, weight in own.target_weights().items():
            np.testing.assert_allclose(weight, expected[name], rtol=1e-5, atol=1e-7, err_msg=name)


def test_updates_of_other_learners_count() -> None:
    """Between two updates of its own, others make five."""
    others = [0]
    own = Learning("fp32", lambda updates: updates + others[0], target_update_interval=3 * 32, tau=0.1)
    before = own.target_weights()
    others[0] = 5
    own.update(1)
    learned = own.learner.weights()
    for name, weight in own.target_weights().items():
        expected = 0.81 * before[name] + 0.19 * learned[name]
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-7, err_msg=name)


@PRECISION
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_its_forward_pass_is_that_of_its_weights(precision: str, rate: float) -> None:
    own = Learning(precision, target_update_interval=32, tau=rate)
    observation = torch.randn(50, 6, generator=torch.Generator().manual_seed(9))
    assert torch.equal(own.target(observation), own.network(observation))
    before = own.target(observation)
    own.update(1)
    assert not torch.equal(own.target(observation), before)
    assert torch.equal(own.target(observation), own.network(observation)) == (rate == 1.0)
    other, parameters = own._network(precision)
    parameters.load({name: torch.from_numpy(array) for name, array in own.target_weights().items()})
    assert torch.equal(own.target(observation), other(observation))
    low = [p for p in own.target.parameters() if p.dtype == torch.bfloat16]
    assert bool(low) == (precision == "bf16")


def test_it_shares_no_memory_with_the_learning_network() -> None:
    own = Learning("fp32", target_update_interval=320)
    target, weights = own.target_weights(), own.learner.weights()
    assert equal(target, weights)
    own.target_parameters.fp32_params.zero_()
    assert equal(own.learner.weights(), weights)
    assert not any(array.any() for array in own.target_weights().values())


def test_a_restored_target_network_moves_at_the_same_updates() -> None:
    one, other = (Learning("bf16", target_update_interval=4 * 32) for _ in range(2))
    for update in range(1, 7):
        one.update(update)
    assert not equal(one.learner.weights(), one.target_weights())
    other.learner.load(one.learner.weights(), one.learner.optimiser_state(), one.learner.target_weights())
    other.learner.updates = one.learner.updates
    for update in range(7, 11):
        assert equal(one.learner.target_weights(), other.learner.target_weights())
        one.update(update)
        other.update(update)
    assert equal(one.learner.target_weights(), other.learner.target_weights())


def test_a_checkpoint_without_it_is_refused() -> None:
    own = Learning("fp32")
    with pytest.raises(CheckpointError, match="do not fit this algorithm"):
        own.learner.load(own.learner.weights(), own.learner.optimiser_state(), {})


@pytest.mark.parametrize("recipe", ["rainbow", "ddpg"])
def test_a_runs_target_network_starts_as_the_learning_one(recipe: str, tmp_path: Path) -> None:
    run = veldt.train(
        recipe,
        env="Pendulum-v1" if recipe == "ddpg" else "CartPole-v1",
        run_dir=tmp_path / "run",
        quiet=True,
        env_backend="in-process",
        num_envs=2,
        steps=300,
        batch_size=20,
        learning_starts=200,
        training_intensity=2.0,
        horizon=0,
        target_update_interval=400,
        tau=1.0,
        checkpoint_every=100,
        keep_checkpoints=10,
        threads=1,
        precision="fp32",
        device="cpu",
        **{} if recipe == "ddpg" else {"noisy": True},
    )
    first, *_, last = map(CheckpointStore.load, sorted((run.path / "checkpoints").iterdir()))
    assert [one.meta["learners"]["0"]["updates"] for one in (first, last)] == [0, 10]
    for checkpoint in (first, last):
        weights = {f"target/{name}": array for name, array in first.groups["weights"].items()}
        assert equal(weights, checkpoint.groups["target"])
    assert any(
        (array != last.groups["target"][f"target/{name}"]).any()
        for name, array in last.groups["weights"].items()
    )
