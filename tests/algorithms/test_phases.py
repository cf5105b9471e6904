"""How a rollout is used: horizons, minibatches, update rules, and schedules as functions of progress."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from rollouts import ACTION, Table, eventful
from torch import Tensor

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.base import Forward
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.rollout import Batch, Rollout
from veldt.errors import UsageError
from veldt.functional.updates import Adam, RMSProp


def phase(own: A2C | PPO, seed: int = 0) -> tuple[list[Batch], Table]:
    rollout, table = eventful(np.random.default_rng(0))
    batches: Iterator[Batch] = own.minibatches(table, rollout, torch.Generator().manual_seed(seed))
    return list(batches), table


def test_a2c_learns_once_from_the_whole_rollout() -> None:
    batches, _ = phase(A2C(A2CConfig(), ACTION))
    assert len(batches) == 1
    assert batches[0].rows is None
    assert len(batches[0].action) == 60


def test_ppo_sees_every_row_once_in_each_pass() -> None:
    batches, _ = phase(PPO(PPOConfig(batch_size=60, epochs=3, minibatches=4), ACTION))
    assert len(batches) == 12
    orders = []
    for epoch in range(3):
        rows = [batch.rows for batch in batches[4 * epoch : 4 * epoch + 4]]
        assert [len(index) for index in rows if index is not None] == [15] * 4
        orders.append(torch.cat([index for index in rows if index is not None]))
        assert torch.equal(orders[-1].sort().values, torch.arange(60))
    assert not torch.equal(orders[0], orders[1])


@pytest.mark.parametrize(("minibatches", "sizes"), [(16, {3, 4}), (45, {1, 2}), (60, {1})])
def test_ppo_makes_as_many_minibatches_as_it_should_of_rows_that_do_not_divide(
    minibatches: int, sizes: set[int]
) -> None:
    """Such as one learner's part of a batch."""
    own = PPO(PPOConfig(batch_size=4 * minibatches, epochs=1, minibatches=minibatches), ACTION)
    batches, _ = phase(own)
    assert len(batches) == minibatches
    assert {len(batch.action) for batch in batches} == sizes
    rows = torch.cat([batch.rows for batch in batches if batch.rows is not None])
    assert torch.equal(rows.sort().values, torch.arange(60))


def test_ppo_minibatches_keep_rows_together() -> None:
    own = PPO(PPOConfig(batch_size=60), ACTION)
    rollout, table = eventful(np.random.default_rng(0))
    whole = own.targets(table, rollout)
    for batch in own.minibatches(table, rollout, torch.Generator().manual_seed(0)):
        assert batch.rows is not None
        assert torch.equal(batch.observation(), batch.rows)
        for name in ("action", "log_prob", "value", "advantage", "target", "valid"):
            assert torch.equal(getattr(batch, name), getattr(whole, name)[batch.rows])


@dataclass(frozen=True, kw_only=True)
class PredictingBatch(Batch):
    next_row: Tensor


class Predicting(PPO):
    """Learns from a column of its own, too."""

    def targets(self, forward: Forward, rollout: Rollout) -> PredictingBatch:
        observation_N = rollout.observations.rows(None)
        assert isinstance(observation_N, Tensor)
        next_N = observation_N + rollout.reward.shape[1]
        return PredictingBatch(**vars(super().targets(forward, rollout)), next_row=next_N)


def test_ppo_minibatches_have_the_columns_of_an_own_batch() -> None:
    rollout, table = eventful(np.random.default_rng(3))
    own = Predicting(PPOConfig(minibatches=2, batch_size=60), ACTION)
    batches = list(own.minibatches(table, rollout, torch.Generator().manual_seed(1)))
    assert len(batches) == 2 * own._config.epochs
    for batch in batches:
        assert isinstance(batch, PredictingBatch)
        assert batch.rows is not None
        assert torch.equal(batch.next_row, batch.rows + rollout.reward.shape[1])
        half = batch.half_of_rows()
        assert len(half.next_row) == len(half.action) == 15


def test_ppo_shuffles_by_the_generator_alone() -> None:
    own = PPO(PPOConfig(batch_size=60), ACTION)
    torch.manual_seed(1)
    first = phase(own, 5)[0]
    torch.manual_seed(2)
    again, other = phase(own, 5)[0], phase(own, 6)[0]
    assert all(torch.equal(a.rows, b.rows) for a, b in zip(first, again, strict=True))  # type: ignore[arg-type]
    assert not torch.equal(first[0].rows, other[0].rows)  # type: ignore[arg-type]


def test_ppo_begins_each_phase_at_a_ratio_of_one() -> None:
    own = PPO(PPOConfig(batch_size=60), ACTION)
    batches, table = phase(own)
    _, metrics, *_ = own.loss(table, batches[0], 0.0)
    assert float(metrics["train/approx_kl"]) == pytest.approx(0.0, abs=1e-6)
    assert float(metrics["train/clip_fraction"]) == 0.0


def test_a2c_scales_the_step_with_the_root_of_the_batch() -> None:
    """The rate is given for 16 envs of 5 steps (Stooke & Abbeel, section 5.2)."""
    own = A2C(A2CConfig(learning_rate=7e-4), ACTION)
    assert own.learning_rate(0.0, 80) == pytest.approx(7e-4)
    assert own.learning_rate(0.0, 320) == pytest.approx(2 * 7e-4)
    assert own.learning_rate(0.0, 20) == pytest.approx(7e-4 / 2)
    assert own.learning_rate(0.0, 256 * 5) == pytest.approx(7e-4 * math.sqrt(16))


def test_a2c_leaves_the_step_alone_where_that_is_asked_for() -> None:
    own = A2C(A2CConfig(learning_rate=7e-4, scale_learning_rate="none"), ACTION)
    assert own.learning_rate(0.0, 20) == own.learning_rate(0.0, 320) == 7e-4


def test_a2c_horizon_does_not_depend_on_the_envs() -> None:
    own = A2C(A2CConfig(horizon=7), ACTION)
    assert own.horizon(1) == own.horizon(512) == 7


@pytest.mark.parametrize(("envs", "horizon"), [(1, 2048), (8, 256), (16, 128), (512, 4), (2048, 1)])
def test_ppo_horizon_shrinks_as_envs_grow(envs: int, horizon: int) -> None:
    assert PPO(PPOConfig(batch_size=2048), ACTION).horizon(envs) == horizon


@pytest.mark.parametrize("batch", [64, 1024, 2048])
@pytest.mark.parametrize("minibatches", [1, 4, 32])
@pytest.mark.parametrize("envs", [3, 6, 7, 100, 4096])
def test_ppo_refuses_a_batch_that_does_not_divide_and_suggests_one(
    batch: int, minibatches: int, envs: int
) -> None:
    own = PPO(PPOConfig(batch_size=batch, minibatches=minibatches), ACTION)
    with pytest.raises(UsageError, match=f"--batch-size {batch} does not divide among {envs} ") as refusal:
        own.horizon(envs)
    advised = int(str(refusal.value).rpartition("use --batch-size ")[2].split()[0])
    assert PPO(PPOConfig(batch_size=advised, minibatches=minibatches), ACTION).horizon(envs) >= 1


@pytest.mark.parametrize(
    "own",
    [
        A2C(A2CConfig(learning_rate=1e-3, anneal_learning_rate=True), ACTION),
        PPO(PPOConfig(learning_rate=1e-3, anneal_learning_rate=True), ACTION),
    ],
    ids=["a2c", "ppo"],
)
def test_annealing_is_a_function_of_progress(own: A2C | PPO) -> None:
    """Repeated calls in any order give the same: there is no counter that a resumed run could lose."""
    for progress in (0.5, 0.0, 0.9, 0.5, 1.0):
        assert own.learning_rate(progress, 80) == pytest.approx(1e-3 * (1 - progress))


def test_settings_of_the_update_rules_reach_them() -> None:
    a2c = A2CConfig(rmsprop_decay=0.9, rmsprop_epsilon=1e-3, rmsprop_epsilon_inside=True, max_grad_norm=7.0)
    assert A2C(a2c, ACTION).rule == RMSProp(decay=0.9, epsilon=1e-3, epsilon_inside=True, initial=0.0)
    assert A2C(a2c, ACTION).max_grad_norm == 7.0
    assert not A2C(A2CConfig(rmsprop_epsilon_inside=False), ACTION).rule.epsilon_inside
    assert PPO(PPOConfig(adam_epsilon=1e-3), ACTION).rule == Adam(0.9, 0.999, 1e-3)


def test_without_annealing_progress_does_not_matter() -> None:
    for own in (A2C(A2CConfig(), ACTION), PPO(PPOConfig(), ACTION)):
        assert own.learning_rate(0.0, 80) == own.learning_rate(0.99, 80)
