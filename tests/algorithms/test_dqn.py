"""DQN's targets, loss and priorities against sums made one row at a time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from q_tables import ACTIONS, Table, dqn, same, table, transitions

ROWS = 12
DOUBLE = pytest.mark.parametrize("double", [False, True], ids=["plain", "double"])


@given(seed=st.integers(0, 2**32 - 1), double=st.booleans())
@settings(max_examples=50, deadline=None)
def test_targets(seed: int, double: bool) -> None:
    rng = np.random.default_rng(seed)
    drawn, online, target = transitions(rng, ROWS), table(rng, ROWS), table(rng, ROWS)
    batch = dqn(double=double).targets(online, target, drawn)
    for n in range(ROWS):
        chooser = (online if double else target).output[ROWS + n]
        chosen = max(range(ACTIONS), key=lambda a: float(chooser[a]))
        value = float(target.output[ROWS + n, chosen])
        expected = float(drawn.reward[n]) + float(drawn.discount[n]) * value
        assert float(batch.target[n]) == pytest.approx(expected, abs=1e-5)


def test_double_q_learning_values_the_learners_choice_by_the_target() -> None:
    """The target network prefers action 2, and overvalues it; the learner would take 1, and overvalues that."""
    rng = np.random.default_rng(0)
    drawn = dataclasses.replace(
        transitions(rng, 1), reward=torch.tensor([0.25]), discount=torch.tensor([0.5])
    )
    here = [0.0] * ACTIONS
    online = Table(torch.tensor([here, [1.0, 50.0, 2.0, 0.0]]))
    target = Table(torch.tensor([here, [1.0, 3.0, 90.0, 0.0]]))
    assert dqn(double=False).targets(online, target, drawn).target.tolist() == [0.25 + 0.5 * 90.0]
    assert dqn(double=True).targets(online, target, drawn).target.tolist() == [0.25 + 0.5 * 3.0]


@DOUBLE
def test_only_the_value_of_the_action_taken_has_a_gradient(double: bool) -> None:
    """The error is clipped (Mnih et al. 2015), and each row's gradient has the row's weight, over the batch's size."""
    rng = np.random.default_rng(1)
    drawn = transitions(rng, ROWS)
    online, target = table(rng, ROWS).learning(), table(rng, ROWS).learning()
    own = dqn(double=double)
    batch = own.targets(online, target, drawn)
    own.loss(online, batch, 0.0).total.backward()
    expected = torch.zeros(2 * ROWS, ACTIONS)
    for n, action in enumerate(drawn.action.tolist()):
        error = float(batch.target[n] - online.output[n, action].detach())
        expected[n, action] = -float(drawn.weight[n]) * min(max(error, -1.0), 1.0) / ROWS
    torch.testing.assert_close(online.output.grad, expected)
    assert target.output.grad is None
    assert not batch.target.requires_grad


def test_the_loss_is_the_weighted_mean_of_the_rows() -> None:
    rng = np.random.default_rng(2)
    drawn, online = transitions(rng, ROWS), table(rng, ROWS)
    own = dqn()
    batch = own.targets(online, table(rng, ROWS), drawn)
    loss = own.loss(online, batch, 0.0)
    total, errors = 0.0, []
    for n, action in enumerate(drawn.action.tolist()):
        error = abs(float(batch.target[n] - online.output[n, action]))
        total += float(drawn.weight[n]) * (0.5 * error**2 if error < 1 else error - 0.5)
        errors.append(error)
    assert min(errors) < 1 < max(errors)
    assert float(loss.total) == pytest.approx(total / ROWS, rel=1e-5)
    assert float(loss.metrics["train/td_error"]) == pytest.approx(np.mean(errors), rel=1e-5)
    taken = online.output[torch.arange(ROWS), drawn.action]
    assert float(loss.metrics["train/q_mean"]) == pytest.approx(float(taken.mean()), rel=1e-5)


def test_priorities_are_absolute_errors() -> None:
    """Neither squared, nor weighted, nor raised to any power: that is the replay buffer's to do, once."""
    rng = np.random.default_rng(3)
    drawn, online = transitions(rng, ROWS), table(rng, ROWS).learning()
    own = dqn()
    batch = own.targets(online, table(rng, ROWS), drawn)
    loss = own.loss(online, batch, 0.0)
    error = batch.target - online.output.detach()[torch.arange(ROWS), drawn.action]
    assert loss.priority is not None
    torch.testing.assert_close(loss.priority, error.abs())
    assert not loss.priority.requires_grad
    assert not any(figure.requires_grad for figure in loss.metrics.values())


@DOUBLE
def test_loss_selection_and_target_have_noise_of_their_own(double: bool) -> None:
    rng = np.random.default_rng(4)
    drawn, online, target = transitions(rng, ROWS, noise=5), table(rng, ROWS), table(rng, ROWS)
    own = dqn(double=double, noisy=True)
    own.loss(online, own.targets(online, target, drawn), 0.0)
    rows = [drawn.noise[k : k + 1] for k in range(3)]  # of the loss, the selection and the target
    assert same(online.noises, [*([rows[1]] if double else []), rows[0]])
    assert same(target.noises, rows[2:])


def test_noise_of_each_row_reaches_the_loss() -> None:
    """A subclass may need it there, as IQN does for its samples of quantiles."""
    rng = np.random.default_rng(4)
    drawn = dataclasses.replace(transitions(rng, ROWS), row_noise=torch.randn(ROWS, 3))
    batch = dqn().targets(table(rng, ROWS), table(rng, ROWS), drawn)
    assert torch.equal(batch.row_noise, drawn.row_noise)


def test_networks_without_noisy_layers_are_given_no_noise() -> None:
    rng = np.random.default_rng(5)
    drawn, online, target = transitions(rng, ROWS), table(rng, ROWS), table(rng, ROWS)
    own = dqn(double=True)
    own.loss(online, own.targets(online, target, drawn), 0.0)
    assert online.noises == [None, None]
    assert target.noises == [None]
