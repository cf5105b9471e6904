"""Advantages and value targets of a rollout, against sums made one env at a time by the definitions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import ACTION, EVENTS, Table, eventful, log_prob, make, spoilt

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.rollout import Rollout

DISCOUNT = 0.9


def naive(
    rollout: Rollout, table: Table, lambda_: float, clip_rewards: bool, terminal_on_life_loss: bool
) -> np.ndarray:
    """Each valid row's advantage in double precision; NaN elsewhere."""
    steps, width = rollout.reward.shape
    value = table.value.double().numpy().reshape(steps + 1, width)
    reward = rollout.reward.double().numpy()
    reward = np.clip(reward, -1, 1) if clip_rewards else reward
    advantage = np.full((steps, width), np.nan)
    for b in range(width):
        for t in range(steps):
            if not rollout.valid[t, b]:
                continue
            total, weight = 0.0, 1.0
            for k in range(t, steps):
                lost = bool(rollout.life_lost[k, b]) and terminal_on_life_loss
                bootstrap = 0.0 if rollout.terminated[k, b] or lost else DISCOUNT * value[k + 1, b]
                total += weight * (reward[k, b] + bootstrap - value[k, b])
                weight *= DISCOUNT * lambda_
                if rollout.terminated[k, b] or rollout.truncated[k, b] or rollout.interrupted[k, b] or lost:
                    break
            advantage[t, b] = total
    return advantage


def algorithm(lambda_: float = 0.8, clip_rewards: bool = False, terminal_on_life_loss: bool = True) -> A2C:
    config = A2CConfig(
        gamma=DISCOUNT,
        gae_lambda=lambda_,
        clip_rewards=clip_rewards,
        terminal_on_life_loss=terminal_on_life_loss,
    )
    return A2C(config, ACTION)


@given(
    events=st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from(EVENTS), min_size=width, max_size=width), min_size=1, max_size=12
        )
    ),
    lambda_=st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0),
    clip_rewards=st.booleans(),
    terminal_on_life_loss=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
def test_equal_to_the_naive_sums(
    events: list[list[str]], lambda_: float, clip_rewards: bool, terminal_on_life_loss: bool, seed: int
) -> None:
    rollout, table = make(events, np.random.default_rng(seed))
    batch = algorithm(lambda_, clip_rewards, terminal_on_life_loss).targets(table, rollout)
    expected = naive(rollout, table, lambda_, clip_rewards, terminal_on_life_loss).ravel()
    valid = ~np.isnan(expected)
    assert np.array_equal(batch.valid.numpy(), valid.astype(np.float32))
    np.testing.assert_allclose(batch.advantage.numpy()[valid], expected[valid], atol=1e-4)
    value = rollout.extras["value"].flatten().numpy()
    np.testing.assert_allclose(batch.target.numpy()[valid], (expected + value)[valid], atol=1e-4)


@pytest.mark.parametrize(
    ("ending", "targets"),
    [
        # Rewards 1, 2, 3, then V(final) = 10 where it counts; γ = 0.9, λ = 1.
        ("terminated", [1 + 0.9 * (2 + 0.9 * 3), 2 + 0.9 * 3, 3]),
        ("truncated", [1 + 0.9 * (2 + 0.9 * (3 + 9)), 2 + 0.9 * (3 + 9), 3 + 9]),
        ("interrupted", [1 + 0.9 * (2 + 0.9 * (3 + 9)), 2 + 0.9 * (3 + 9), 3 + 9]),
        ("life lost", [1 + 0.9 * (2 + 0.9 * 3), 2 + 0.9 * 3, 3]),
    ],
)
def test_an_end_by_hand(ending: str, targets: list[float]) -> None:
    """The terminal reward counts, nothing of the next episode does, and only a termination is worth nothing."""
    rollout, table = make([["go on"], ["go on"], [ending], ["go on"], ["go on"]], np.random.default_rng(0))
    rollout.reward[:, 0] = torch.tensor([1.0, 2.0, 3.0, 0.0 if ending != "life lost" else 400.0, 500.0])
    table.value[3] = rollout.extras["value"][3, 0] = 10.0
    batch = algorithm(1.0).targets(table, rollout)
    assert batch.target[:3].tolist() == pytest.approx(targets, rel=1e-5)


def test_the_last_row_bootstraps_from_the_observation_after_it() -> None:
    rollout, table = make([["go on", "go on"]], np.random.default_rng(0))
    batch = algorithm().targets(table, rollout)
    expected = rollout.reward[0] + DISCOUNT * table.value[2:4]
    torch.testing.assert_close(batch.target, expected)


def test_rewards_are_clipped_for_learning_and_left_raw_in_the_rollout() -> None:
    rollout, table = make([["terminated", "terminated", "terminated"]], np.random.default_rng(0))
    rollout.reward[0] = torch.tensor([5.0, -7.0, 0.25])
    assert algorithm(clip_rewards=True).targets(table, rollout).target.tolist() == pytest.approx(
        [1, -1, 0.25]
    )
    assert algorithm(clip_rewards=False).targets(table, rollout).target.tolist() == pytest.approx(
        [5, -7, 0.25]
    )
    assert rollout.reward[0].tolist() == [5.0, -7.0, 0.25]


def test_without_recorded_values_all_are_the_present_ones() -> None:
    """Also in the last row: changes of the values since the policy acted are in no advantage."""
    rollout, table = eventful(np.random.default_rng(1))
    late = dataclasses.replace(rollout, extras={"policy": rollout.extras["policy"]})
    before = algorithm().targets(table, late)
    torch.testing.assert_close(before.advantage, algorithm().targets(table, rollout).advantage)
    moved = Table(table.policy, torch.randn(table.value.shape, generator=torch.Generator().manual_seed(0)))
    present = moved.value[: rollout.valid.numel()].view(rollout.valid.shape)
    expected = algorithm().targets(
        moved, dataclasses.replace(rollout, extras=rollout.extras | {"value": present})
    )
    again = algorithm().targets(moved, late)
    for name in ("value", "advantage", "target", "log_prob"):
        torch.testing.assert_close(getattr(again, name), getattr(expected, name))


def test_the_values_are_those_the_policy_had_while_it_acted() -> None:
    rollout, table = eventful(np.random.default_rng(1))
    batch = algorithm().targets(table, rollout)
    later = Table(table.policy + 1.0, table.value.clone())
    later.value[: rollout.valid.numel()] += 5.0
    again = algorithm().targets(later, rollout)
    assert torch.equal(batch.value, rollout.extras["value"].flatten())
    assert torch.equal(batch.advantage, again.advantage)
    assert torch.equal(batch.log_prob, log_prob(rollout.extras["policy"].flatten(0, 1), batch.action))


@pytest.mark.parametrize("seed", range(5))
def test_reset_steps_have_no_influence_on_targets(seed: int) -> None:
    rollout, table = eventful(np.random.default_rng(seed))
    clean, dirty = (algorithm(1.0).targets(table, each) for each in (rollout, spoilt(rollout)))
    valid = clean.valid > 0
    for name in ("advantage", "target", "log_prob", "value", "action"):
        assert torch.equal(getattr(clean, name)[valid], getattr(dirty, name)[valid]), name


@pytest.mark.parametrize("seed", range(5))
def test_what_follows_a_termination_has_no_influence(seed: int) -> None:
    """Nor has the value of the reset row's observation, from which no target bootstraps."""
    rollout, table = eventful(np.random.default_rng(seed))
    after_TB = torch.zeros_like(rollout.valid)
    after_TB[1:] = rollout.terminated[:-1]
    assert after_TB.any()
    value = torch.where(after_TB, 1e30, rollout.extras["value"])
    other = dataclasses.replace(rollout, extras={**rollout.extras, "value": value})
    clean, dirty = (algorithm(1.0).targets(table, each) for each in (rollout, other))
    valid = clean.valid > 0
    assert torch.equal(clean.advantage[valid], dirty.advantage[valid])


def test_targets_carry_no_gradient() -> None:
    rollout, table = eventful(np.random.default_rng(0))
    batch = algorithm().targets(table.learning(), rollout)
    assert not any(
        getattr(batch, name).requires_grad for name in ("advantage", "target", "value", "log_prob")
    )


def test_ppo_has_the_same_targets() -> None:
    rollout, table = eventful(np.random.default_rng(3))
    config = PPOConfig(gamma=DISCOUNT, gae_lambda=0.8, clip_rewards=False)
    assert torch.equal(
        PPO(config, ACTION).targets(table, rollout).advantage,
        algorithm(0.8).targets(table, rollout).advantage,
    )
