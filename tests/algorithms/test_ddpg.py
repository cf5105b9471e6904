"""DDPG: the two losses have separate gradients, and noise is added to actions."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veldt.algorithms.ddpg import DDPG, DDPGConfig
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.envs.seeding import ACTION, uniform
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.exchange.gradients import NoAllReduce
from veldt.learning.learner import Learner
from veldt.networks.build import build_torso
from veldt.networks.deterministic import DeterministicActorCritic
from veldt.networks.flat import FlatParameters

ROWS, INPUTS, DIMENSIONS = 12, 5, 2
BOX = ActionSpec(
    "box",
    low=(-1.0,) * DIMENSIONS,
    high=(3.0,) * DIMENSIONS,
    env_shape=(DIMENSIONS,),
    env_dtype="float32",
)
SPEC = EnvSpec({"": ArraySpec((INPUTS,), "float32")}, BOX)


def ddpg(**settings: Any) -> DDPG:
    return DDPG(DDPGConfig(**settings), BOX)


class Precise(nn.Module):
    """A small policy and critic in double precision, so that differences of values are exact enough."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.actor = nn.Linear(INPUTS, DIMENSIONS)
        self.critic = nn.Sequential(nn.Linear(INPUTS + DIMENSIONS, 8), nn.Tanh(), nn.Linear(8, 1))
        self.double()

    def forward(self, observation: Tensor, action: Tensor | None = None) -> Tensor:
        if action is None:
            return self.actor(observation).tanh()
        return self.critic(torch.cat([observation, action], -1)).squeeze(-1)


def transitions(dtype: torch.dtype = torch.float64) -> Transitions:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape)).to(dtype)

    return Transitions(
        observation=normal(ROWS, INPUTS),
        action=torch.from_numpy(rng.uniform(-1.0, 1.0, (ROWS, DIMENSIONS))).to(dtype),
        reward=normal(ROWS),
        discount=torch.where(torch.arange(ROWS) % 4 == 3, 0.0, 0.97).to(dtype),
        next_observation=normal(ROWS, INPUTS),
        weight=torch.from_numpy(rng.uniform(0.1, 1.0, ROWS)).to(dtype),
        noise=torch.zeros(3, 0),
    )


def not_asked(*args: Any) -> Tensor:
    raise AssertionError("the learning network has no part in the targets")


def test_targets_are_the_target_critics_values_of_the_target_actors_actions() -> None:
    drawn, target = transitions(), Precise()
    batch = ddpg().targets(not_asked, target, drawn)
    after = drawn.next_observation
    assert isinstance(after, Tensor)
    for n in range(ROWS):
        row = after[n : n + 1]
        value = target(row, target.actor(row).tanh())
        torch.testing.assert_close(batch.target[n], (drawn.reward[n] + drawn.discount[n] * value[0]).detach())
    assert not batch.target.requires_grad


def loss_of(own: DDPG, network: nn.Module, drawn: Transitions) -> tuple[QLearningBatch, dict[str, Tensor]]:
    """The batch, and every parameter's gradient of its group's loss."""
    batch = own.targets(not_asked, Precise(1), drawn)
    losses, gradients = own.loss(network, batch, 0.0).by_group, {}
    assert losses is not None and losses.keys() == {group.name for group in own.groups}
    for name, loss in losses.items():
        part = dict(network.get_submodule(name).named_parameters(prefix=name))
        gradients |= dict(zip(part, torch.autograd.grad(loss, list(part.values())), strict=True))
    return batch, gradients


def test_the_critics_gradient_is_that_of_its_own_loss_alone() -> None:
    """Bit for bit: the actor's loss has no influence. The rows' weights are in it."""
    network = Precise()
    batch, gradient = loss_of(ddpg(), network, transitions())
    error_N = batch.target - network(batch.observation, batch.action)
    (batch.weight * error_N.square()).mean().backward()
    for name, parameter in network.critic.named_parameters(prefix="critic"):
        assert torch.equal(gradient[name], parameter.grad), name
        assert parameter.grad.any()


def test_the_actors_gradient_is_the_slope_of_the_policys_mean_value() -> None:
    """By differences of mean Q(s, π(s)), which is to grow: the rows' weights are for the critic."""
    network = Precise()
    batch, gradient = loss_of(ddpg(), network, transitions())

    def value() -> float:
        with torch.no_grad():
            return float(network(batch.observation, network(batch.observation)).mean())

    h = 1e-5
    for name, parameter in network.actor.named_parameters(prefix="actor"):
        flat, slope = parameter.data.view(-1), gradient[name].view(-1)
        for i in range(len(flat)):
            before = float(flat[i])
            flat[i] = before + h
            above = value()
            flat[i] = before - h
            below = value()
            flat[i] = before
            assert float(slope[i]) == pytest.approx(-(above - below) / (2 * h), rel=1e-6, abs=1e-10), name


def test_elements_of_the_critics_slope_can_be_limited() -> None:
    """A critic that rises with 5 and -0.2 by action: the actor moves as if it were 1 and -0.2."""

    class Plane(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor = nn.Parameter(torch.zeros(DIMENSIONS))
            self.critic = nn.Parameter(torch.tensor([5.0, -0.2]))

        def forward(self, observation: Tensor, action: Tensor | None = None) -> Tensor:
            return self.actor.expand(len(observation), -1) if action is None else action @ self.critic

    batch = QLearningBatch(
        torch.zeros(ROWS, INPUTS),
        torch.zeros(ROWS, DIMENSIONS),
        torch.zeros(ROWS),
        torch.ones(ROWS),
        torch.zeros(1, 0),
    )
    for limit, slope in ((0.0, [5.0, -0.2]), (1.0, [1.0, -0.2]), (0.1, [0.1, -0.1])):
        network = Plane()
        losses = ddpg(action_gradient_clip=limit).loss(network, batch, 0.0).by_group
        assert losses is not None
        losses["actor"].backward()
        assert network.actor.grad is not None
        np.testing.assert_allclose(-network.actor.grad, slope, rtol=1e-6)


def test_priorities_are_absolute_errors_and_metrics_equal_their_definitions() -> None:
    network, own = Precise(), ddpg()
    batch = own.targets(not_asked, Precise(1), transitions())
    loss = own.loss(network, batch, 0.0)
    with torch.no_grad():
        q_N = network(batch.observation, batch.action)
        policy_N = network(batch.observation, network(batch.observation))
    assert loss.priority is not None
    torch.testing.assert_close(loss.priority, (batch.target - q_N).abs())
    torch.testing.assert_close(
        loss.metrics["train/critic_loss"], (batch.weight * (batch.target - q_N).square()).mean()
    )
    torch.testing.assert_close(loss.metrics["train/q_mean"], q_N.mean())
    torch.testing.assert_close(loss.metrics["train/policy_q_mean"], policy_N.mean())
    assert not loss.priority.requires_grad
    assert not any(figure.requires_grad for figure in loss.metrics.values())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_actor_and_critic_have_step_sizes_of_their_own(precision: str) -> None:
    """Adam's first step is the step size, whatever the gradient."""
    torch.manual_seed(0)
    own = ddpg(learning_rate=1e-2, actor_learning_rate=1e-3)
    network = own.network(functools.partial(build_torso, "mlp", SPEC, (16, 8)))
    assert isinstance(network, DeterministicActorCritic)
    low = network.low_precision_parts() if precision == "bf16" else ()
    learner = Learner(own, network, FlatParameters(network, low), NoAllReduce())
    before = learner.weights()
    batch = own.targets(not_asked, network, transitions(torch.float32))
    learner.update(batch, 0.0, own.learning_rate(0.0, ROWS))
    moved = {name: np.abs(weight - before[name]).max() for name, weight in learner.weights().items()}
    assert {name.partition(".")[0] for name in moved} == {"actor", "critic"}
    for name, distance in moved.items():
        assert distance == pytest.approx(1e-3 if name.startswith("actor.") else 1e-2, rel=0.02), name


def noise(own: DDPG, steps: int | None, rows: int = 500, width: int = 6) -> tuple[Tensor, Tensor]:
    """The uniform numbers, and what is made of them."""
    drawn = torch.from_numpy(uniform(1, ACTION, np.arange(width), np.arange(rows), DIMENSIONS))
    return drawn, own.prepare_noise(drawn, steps)


def test_at_first_any_action_is_as_likely() -> None:
    own = ddpg(learning_starts=1000, exploration_noise=0.1)
    drawn, prepared = noise(own, 999)
    action, _ = own.act(
        lambda _: torch.full((3000, DIMENSIONS), 0.9), torch.zeros(3000), prepared.flatten(0, 1)
    )
    torch.testing.assert_close(action, 2.0 * drawn.flatten(0, 1) - 1.0)
    assert float(action.abs().max()) <= 1.0
    counts, _ = np.histogram(action[:, 0], bins=10, range=(-1, 1))
    assert counts.min() > 200


def test_from_then_on_the_policys_action_has_normal_noise_within_the_bounds() -> None:
    own = ddpg(learning_starts=1000, exploration_noise=0.2)
    _, prepared = noise(own, 1000)
    policy = torch.tensor([0.0, 0.95]).expand(3000, -1)
    action, remembered = own.act(lambda _: policy, torch.zeros(3000), prepared.flatten(0, 1))
    added = (action - policy)[:, 0]
    assert float(added.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(added.std()) == pytest.approx(0.2, rel=0.05)
    assert float((added.abs() < 0.2).float().mean()) == pytest.approx(0.683, abs=0.03)
    assert float(action.max()) == 1.0
    assert remembered == {}


def test_without_noise_the_action_is_the_policys_in_training_and_in_evaluation() -> None:
    policy = torch.linspace(-1.0, 1.0, 6)[:, None].expand(-1, DIMENSIONS)
    for own, steps in ((ddpg(exploration_noise=0.0), 10**9), (ddpg(exploration_noise=5.0), None)):
        _, prepared = noise(own, steps, rows=1)
        action, _ = own.act(lambda _: policy, torch.zeros(6), prepared[0])
        assert torch.equal(action, policy)
        assert torch.equal(own.best_action(lambda _: policy, torch.zeros(6)), policy)


@pytest.mark.parametrize("steps", [0, 10**9, None])
def test_noise_belongs_to_envs_and_not_to_batches(steps: int | None) -> None:
    own = ddpg()
    drawn, together = noise(own, steps, rows=9, width=8)
    policy = torch.linspace(-1.0, 1.0, 8)[:, None].expand(-1, DIMENSIONS)
    for t in range(9):
        assert torch.equal(own.prepare_noise(drawn[t], steps), together[t])
        whole, _ = own.act(lambda _: policy, torch.zeros(8), together[t])
        for group in (slice(0, 3), slice(3, 8)):
            part, _ = own.act(lambda _, group=group: policy[group], torch.zeros(8)[group], together[t, group])
            assert torch.equal(part, whole[group])


def test_first_priorities_equal_those_of_a_learner() -> None:
    own, network, drawn = ddpg(), Precise(), transitions()
    noise = torch.cat([torch.full((ROWS, DIMENSIONS), 0.3), torch.ones(ROWS, DIMENSIONS)], -1).double()
    action, here = own.act_with_values(network, drawn.observation, noise)
    assert torch.equal(action, own.act(network, drawn.observation, noise)[0])
    _, there = own.act_with_values(network, drawn.next_observation, noise)
    drawn = dataclasses.replace(drawn, action=action)
    priorities = own.first_priorities(here["taken"], drawn.reward, drawn.discount, there["best"])
    learners = own.loss(network, own.targets(network, network, drawn), 0.0).priority
    torch.testing.assert_close(priorities, learners)
