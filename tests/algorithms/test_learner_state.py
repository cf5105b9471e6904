"""The learner's state round-trips through arrays, and other arrays are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rollouts import ACTION, eventful
from torch import Tensor, nn

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.base import Loss
from veldt.algorithms.policy_gradient import PolicyGradient
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.vtrace import VTrace, VTraceConfig
from veldt.errors import CheckpointError
from veldt.exchange.gradients import NoAllReduce
from veldt.learning.learner import Learner
from veldt.networks.flat import FlatParameters
from veldt.systems.roles.messages import UpdateMetrics


class OneHot(nn.Module):
    """A small network on the numbers of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.value = nn.Embedding(65, ACTION.sizes[0]), nn.Embedding(65, 1)

    def forward(self, row: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy(row), self.value(row).squeeze(-1)


def make_learner(make: Callable[[], PolicyGradient], seed: int = 0) -> tuple[PolicyGradient, OneHot, Learner]:
    torch.manual_seed(seed)
    own, network = make(), OneHot()
    return own, network, Learner(own, network, FlatParameters(network), NoAllReduce())


def learn(own: PolicyGradient, network: OneHot, learner: Learner, phases: int) -> None:
    rollout, table = eventful(np.random.default_rng(7))
    for _ in range(phases):
        for batch in own.minibatches(table, rollout, torch.Generator().manual_seed(0)):
            learner.update(batch, 0.0, 1e-2)


ALGORITHMS = [
    pytest.param(lambda: A2C(A2CConfig(), ACTION), id="a2c"),
    pytest.param(lambda: PPO(PPOConfig(batch_size=60, epochs=2), ACTION), id="ppo"),
    pytest.param(lambda: VTrace(VTraceConfig(), ACTION), id="vtrace"),
]


@pytest.mark.parametrize("make", ALGORITHMS)
def test_a_learner_restored_from_arrays_continues_identically(make: Callable[[], PolicyGradient]) -> None:
    own, network, learner = make_learner(make)
    learn(own, network, learner, 2)
    weights, state = learner.weights(), learner.optimiser_state()
    learn(own, network, learner, 2)

    again, other, restored = make_learner(make, seed=1)
    restored.load(weights, state, {})
    learn(again, other, restored, 2)
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter, other.get_parameter(name)), name
    assert {name: array.tobytes() for name, array in learner.optimiser_state().items()} == {
        name: array.tobytes() for name, array in restored.optimiser_state().items()
    }


def test_arrays_are_copies() -> None:
    own, network, learner = make_learner(lambda: A2C(A2CConfig(), ACTION))
    weights = learner.weights()
    before = {name: array.copy() for name, array in weights.items()}
    learn(own, network, learner, 1)
    assert all(np.array_equal(weights[name], before[name]) for name in weights)


@pytest.mark.parametrize("spoil", ["weights", "state"])
@pytest.mark.parametrize("how", ["missing", "another shape", "a shape that would broadcast"])
def test_arrays_of_another_network_are_refused(spoil: str, how: str) -> None:
    _, _, learner = make_learner(lambda: PPO(PPOConfig(), ACTION))
    weights, state = learner.weights(), learner.optimiser_state()
    arrays, name = (weights, "value.weight") if spoil == "weights" else (state, "square/value.weight")
    if how == "missing":
        del arrays[name]
    else:
        arrays[name] = arrays[name][:7] if how == "another shape" else arrays[name][:1]
    with pytest.raises(CheckpointError, match=r"(do|does) not fit this network: .*value\.weight"):
        learner.load(weights, state, {})


def test_an_update_reaches_the_parts_that_compute_in_bf16() -> None:
    torch.manual_seed(0)
    own, network = A2C(A2CConfig(), ACTION), OneHot()
    parameters = FlatParameters(network, [network.value])
    learner = Learner(own, network, parameters, NoAllReduce())
    before = network.value.weight.detach().clone()
    rollout, table = eventful(np.random.default_rng(7))
    for batch in own.minibatches(table, rollout, torch.Generator()):
        learner.update(batch, 0.0, 0.1)
    after = network.value.weight.detach()
    assert after.dtype == torch.bfloat16
    assert not torch.equal(before, after)
    assert torch.equal(after, parameters.tensors()["value.weight"].to(torch.bfloat16))


def test_an_update_clips_the_gradient_and_logs_its_norm() -> None:
    own, _, learner = make_learner(lambda: PPO(PPOConfig(batch_size=60, max_grad_norm=1e-9), ACTION))
    rollout, table = eventful(np.random.default_rng(7))
    batch = next(iter(own.minibatches(table, rollout, torch.Generator().manual_seed(0))))
    before = learner.weights()
    loss = learner.update(batch, 0.0, 1e-3)
    assert float(loss.metrics["train/grad_norm"]) > 1e-3
    after = learner.weights()
    # Adam's step is the learning rate whatever the gradient's size, unless that is far below its epsilon.
    assert max(float(np.abs(after[name] - before[name]).max()) for name in after) < 1e-6
    assert learner.updates == 1


def test_metrics_of_an_update_get_the_prefix_of_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    own, _, learner = make_learner(lambda: A2C(A2CConfig(), ACTION))
    rollout, table = eventful(np.random.default_rng(7))
    batch = next(iter(own.minibatches(table, rollout, torch.Generator().manual_seed(0))))
    compute = own.loss

    def loss(*arguments: Any) -> Loss:
        return compute(*arguments)._replace(
            metrics={
                "loss": torch.tensor(7.0),
                "entropy_bonus": torch.tensor(1.0),
                "curiosity/bonus": torch.tensor(2.0),
            }
        )

    monkeypatch.setattr(own, "loss", loss)
    loss_of_update = learner.update(batch, 0.0, 1e-3)
    metrics = UpdateMetrics()
    metrics.add(loss_of_update.metrics, (0.0, 0.0, 0.0), 1e-3)
    sums = metrics.take(1, {}, {}).sums
    assert set(sums) == {"curiosity/bonus", "train/entropy_bonus", "train/loss", "train/grad_norm"}
    assert sums["train/loss"] == float(
        loss_of_update.total.detach()
    )  # its own name wins over the algorithm's
