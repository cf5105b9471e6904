"""The losses of A2C and PPO against their formulas, summed over the valid rows one at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from rollouts import ACTION, Table, eventful, spoilt

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.rollout import Batch

Numbers = dict[str, np.ndarray]


def rows(table: Table, batch: Batch) -> Numbers:
    """Everything of the valid rows, in double precision."""
    valid = batch.valid.numpy() > 0
    index = np.arange(len(valid)) if batch.rows is None else batch.rows.numpy()
    logits = table.policy.double().numpy()[index]
    log_policy = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    action = batch.action.numpy()
    numbers = {
        "log_prob": log_policy[np.arange(len(valid)), action],
        "entropy": -(np.exp(log_policy) * log_policy).sum(-1),
        "value": table.value.double().numpy()[index],
        "old_log_prob": batch.log_prob.double().numpy(),
        "old_value": batch.value.double().numpy(),
        "advantage": batch.advantage.double().numpy(),
        "target": batch.target.double().numpy(),
    }
    return {name: array[valid] for name, array in numbers.items()}


def test_a2c_loss() -> None:
    rng = np.random.default_rng(0)
    rollout, table = eventful(rng)
    own = A2C(A2CConfig(ent_coef=0.03, vf_coef=0.4), ACTION)
    batch = own.targets(table, rollout)
    later = table.moved(rng, 0.3)
    loss, metrics, *_ = own.loss(later, batch, 0.0)
    n = rows(later, batch)
    policy = np.mean(-n["log_prob"] * n["advantage"])
    value = np.mean((n["value"] - n["target"]) ** 2)
    assert float(metrics["train/policy_loss"]) == pytest.approx(policy, rel=1e-4)
    assert float(metrics["train/value_loss"]) == pytest.approx(value, rel=1e-4)
    assert float(metrics["train/entropy"]) == pytest.approx(np.mean(n["entropy"]), rel=1e-4)
    assert float(metrics["train/value_mean"]) == pytest.approx(np.mean(n["value"]), rel=1e-4)
    assert not metrics["train/value_mean"].requires_grad
    assert float(loss) == pytest.approx(policy + 0.4 * value - 0.03 * np.mean(n["entropy"]), rel=1e-4)


@pytest.mark.parametrize("clip_values", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
def test_ppo_loss(clip_values: bool, normalise: bool) -> None:
    rng = np.random.default_rng(1)
    rollout, table = eventful(rng)
    config = PPOConfig(
        ent_coef=0.03, vf_coef=0.4, clip=0.2, clip_values=clip_values, normalise_advantages=normalise
    )
    own = PPO(config, ACTION)
    batch = own.targets(table, rollout).select(torch.from_numpy(rng.permutation(60)[:40]))
    later = table.moved(rng, 0.3)
    loss, metrics, *_ = own.loss(later, batch, 0.0)
    n = rows(later, batch)
    ratio = np.exp(n["log_prob"] - n["old_log_prob"])
    advantage = n["advantage"]
    if normalise:
        advantage = (advantage - advantage.mean()) / advantage.std()
    policy = np.mean(-np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage))
    error = (n["value"] - n["target"]) ** 2
    if clip_values:
        clipped = n["old_value"] + np.clip(n["value"] - n["old_value"], -0.2, 0.2)
        error = np.maximum(error, (clipped - n["target"]) ** 2)
    entropy = np.mean(n["entropy"])
    assert float(metrics["train/policy_loss"]) == pytest.approx(policy, rel=1e-4)
    assert float(metrics["train/value_loss"]) == pytest.approx(np.mean(error), rel=1e-4)
    assert float(loss) == pytest.approx(policy + 0.4 * np.mean(error) - 0.03 * entropy, rel=1e-4)
    assert float(metrics["train/value_mean"]) == pytest.approx(np.mean(n["value"]), rel=1e-4)
    assert float(metrics["train/approx_kl"]) == pytest.approx(np.mean(ratio - 1 - np.log(ratio)), rel=1e-3)
    assert float(metrics["train/clip_fraction"]) == pytest.approx(np.mean(np.abs(ratio - 1) > 0.2))
    assert 0 < float(metrics["train/clip_fraction"]) < 1


def test_ppo_clips_less_and_less_where_that_is_asked_for() -> None:
    rng = np.random.default_rng(2)
    rollout, table = eventful(rng)
    later = table.moved(rng, 0.3)

    def at(progress: float, **settings: float) -> float:
        own = PPO(PPOConfig(**settings), ACTION)  # type: ignore[arg-type]
        return float(own.loss(later, own.targets(table, rollout), progress)[0])

    assert at(0.75, clip=0.2, anneal_clip=True) == pytest.approx(at(0.0, clip=0.05))
    assert at(0.75, clip=0.2, anneal_clip=False) == at(0.0, clip=0.2)
    assert at(0.0, clip=0.2) != pytest.approx(at(0.0, clip=0.05))


def test_the_entropys_coefficient_may_change_with_progress() -> None:
    rng = np.random.default_rng(2)
    rollout, table = eventful(rng)
    later = table.moved(rng, 0.3)

    def at(progress: float, ent_coef: float | str) -> float:
        own = A2C(A2CConfig(ent_coef=ent_coef), ACTION)
        return float(own.loss(later, own.targets(table, rollout), progress)[0])

    assert at(0.75, "linear:0.4:0") == at(0.0, 0.1) != at(0.0, "linear:0.4:0") == at(0.0, 0.4)


MAKE = [
    pytest.param(lambda: A2C(A2CConfig(clip_rewards=False), ACTION), id="a2c"),
    pytest.param(lambda: PPO(PPOConfig(clip_rewards=False), ACTION), id="ppo"),
    pytest.param(
        lambda: PPO(PPOConfig(clip_rewards=False, clip_values=False, normalise_advantages=False), ACTION),
        id="ppo, plain",
    ),
]


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("seed", range(3))
def test_reset_steps_have_no_part_in_loss_and_gradient(make: Callable[[], A2C | PPO], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rollout, table = eventful(rng)
    later = table.moved(rng, 0.1)
    results = []
    for each in (rollout, spoilt(rollout)):
        own, network = make(), later.learning()
        loss, metrics, *_ = own.loss(network, own.targets(table, each), 0.0)
        loss.backward()
        results.append((loss, metrics, network.policy.grad, network.value.grad))
    (loss, metrics, policy, value), (other, other_metrics, other_policy, other_value) = results
    assert math.isfinite(float(loss.detach()))
    assert torch.equal(loss, other)
    assert all(torch.equal(metrics[name], other_metrics[name]) for name in metrics)
    assert torch.equal(policy, other_policy)
    assert torch.equal(value, other_value)
    is_reset_step = torch.cat(
        [~rollout.valid.flatten(), torch.ones(rollout.valid.shape[1], dtype=torch.bool)]
    )
    assert not other_policy[is_reset_step].any()
    assert not other_value[is_reset_step].any()
    assert policy[~is_reset_step].any(-1).all()


@pytest.mark.parametrize("make", MAKE)
def test_a_rollout_of_reset_steps_teaches_nothing(make: Callable[[], A2C | PPO]) -> None:
    """This happens where finished envs wait for the optimisation pause."""
    rollout, table = eventful(np.random.default_rng(0))
    rollout.valid[:] = False
    own, network = make(), table.learning()
    loss, *_ = own.loss(network, own.targets(table, rollout), 0.0)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert network.policy.grad is not None
    assert not network.policy.grad.any()
