"""Categorical DQN's targets, loss and priorities against sums made one row and one atom at a time."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from q_tables import ACTIONS, DISCRETE, Table, same, table, transitions

from veldt.algorithms.c51 import C51, C51Config, Rainbow, RainbowConfig

ROWS, ATOMS = 12, 7
LOW, HIGH = -3.0, 6.0
SUPPORT = np.linspace(LOW, HIGH, ATOMS)
DOUBLE = pytest.mark.parametrize("double", [False, True], ids=["plain", "double"])


def c51(**settings: Any) -> C51:
    return C51(C51Config(atoms=ATOMS, value_min=LOW, value_max=HIGH, **settings), DISCRETE)


def probabilities(own: Table) -> np.ndarray:
    logits = own.output.detach().double().numpy()
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def projected(probability: np.ndarray, reward: float, discount: float) -> np.ndarray:
    """Bellemare et al. 2017, equation 7: each atom's share is a triangle around it, as wide as the atoms' spacing."""
    moved = np.clip(reward + discount * SUPPORT, LOW, HIGH)
    spacing = SUPPORT[1] - SUPPORT[0]
    return np.array([probability @ np.clip(1 - np.abs(moved - z) / spacing, 0, 1) for z in SUPPORT])


@given(seed=st.integers(0, 2**32 - 1), double=st.booleans())
@settings(max_examples=50, deadline=None)
def test_targets(seed: int, double: bool) -> None:
    rng = np.random.default_rng(seed)
    drawn, online, target = transitions(rng, ROWS), table(rng, ROWS, ATOMS), table(rng, ROWS, ATOMS)
    batch = c51(double=double).targets(online, target, drawn)
    chooser, valued = probabilities(online if double else target), probabilities(target)
    for n in range(ROWS):
        chosen = max(range(ACTIONS), key=lambda a: float(chooser[ROWS + n, a] @ SUPPORT))
        expected = projected(valued[ROWS + n, chosen], float(drawn.reward[n]), float(drawn.discount[n]))
        np.testing.assert_allclose(batch.target[n], expected, atol=1e-5)


def certain(*values: float) -> list[list[float]]:
    """Logits of actions whose values are exactly these atoms."""
    return [[40.0 if z == value else 0.0 for z in SUPPORT] for value in values]


def test_double_q_learning_values_the_learners_choice_by_the_target() -> None:
    """By their means: the likeliest return of action 3 is the highest in both networks, and its mean is not."""
    rng = np.random.default_rng(0)
    drawn = dataclasses.replace(
        transitions(rng, 1), reward=torch.tensor([0.25]), discount=torch.tensor([0.5])
    )
    gamble = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.2]
    here = certain(0.0, 0.0, 0.0, 0.0)
    online = Table(torch.tensor([here, [*certain(0.0, 6.0, 1.5), gamble]]))
    target = Table(torch.tensor([here, [*certain(0.0, 3.0, 4.5), gamble]]))
    for double, value in ((False, 4.5), (True, 3.0)):
        mean = float(
            c51(double=double).targets(online, target, drawn).target[0] @ torch.from_numpy(SUPPORT).float()
        )
        assert mean == pytest.approx(0.25 + 0.5 * value, abs=1e-4)


@DOUBLE
def test_only_the_distribution_of_the_action_taken_has_a_gradient(double: bool) -> None:
    rng = np.random.default_rng(1)
    drawn = transitions(rng, ROWS)
    online, target = table(rng, ROWS, ATOMS).learning(), table(rng, ROWS, ATOMS).learning()
    own = c51(double=double)
    batch = own.targets(online, target, drawn)
    own.loss(online, batch, 0.0).total.backward()
    expected, p = np.zeros((2 * ROWS, ACTIONS, ATOMS)), probabilities(online)
    for n, action in enumerate(drawn.action.tolist()):
        # Of the cross entropy by the logits.
        expected[n, action] = float(drawn.weight[n]) * (p[n, action] - batch.target[n].numpy()) / ROWS
    np.testing.assert_allclose(online.output.grad, expected, atol=1e-6)
    assert target.output.grad is None
    assert not batch.target.requires_grad


def test_the_loss_is_the_weighted_mean_cross_entropy_and_priorities_are_divergences() -> None:
    rng = np.random.default_rng(2)
    drawn, online = transitions(rng, ROWS), table(rng, ROWS, ATOMS).learning()
    own = c51()
    batch = own.targets(online, table(rng, ROWS, ATOMS), drawn)
    loss = own.loss(online, batch, 0.0)
    p, t = probabilities(online), batch.target.double().numpy()
    total, divergences, values = 0.0, [], []
    for n, action in enumerate(drawn.action.tolist()):
        inside = t[n] > 0
        total -= float(drawn.weight[n]) * float(t[n] @ np.log(p[n, action]))
        divergences.append(np.sum(t[n][inside] * np.log(t[n][inside] / p[n, action][inside])))
        values.append(p[n, action] @ SUPPORT)
    assert float(loss.total.detach()) == pytest.approx(total / ROWS, rel=1e-5)
    assert loss.priority is not None
    np.testing.assert_allclose(loss.priority, divergences, rtol=1e-3)
    assert float(loss.metrics["train/kl_to_target"]) == pytest.approx(np.mean(divergences), rel=1e-3)
    assert float(loss.metrics["train/q_mean"]) == pytest.approx(np.mean(values), rel=1e-4)
    outer = float(loss.metrics["train/outer_atoms_probability"])
    assert outer == pytest.approx(np.mean(t[:, 0] + t[:, -1]), rel=1e-5)
    assert not loss.priority.requires_grad
    assert not any(figure.requires_grad for figure in loss.metrics.values())


def test_priorities_are_never_below_zero() -> None:
    """Nor where the distribution equals its target, up to rounding."""
    rng = np.random.default_rng(3)
    rows = 500
    online = table(rng, rows, ATOMS)
    batch = c51().targets(online, online, transitions(rng, rows))
    learned = Table(torch.log(batch.target.clamp(min=1e-30))[:, None].expand(-1, ACTIONS, -1))
    for each in (online, learned):
        priority = c51().loss(each, batch, 0.0).priority
        assert priority is not None
        assert float(priority.min()) >= 0.0
    assert float(priority.max()) < 1e-5


def test_actions_are_chosen_by_the_mean_return() -> None:
    rng = np.random.default_rng(4)
    states, own = table(rng, ROWS, ATOMS), c51()
    best = own.best_action(states, torch.arange(ROWS))
    values = probabilities(states)[:ROWS] @ SUPPORT
    np.testing.assert_array_equal(best, values.argmax(-1))
    np.testing.assert_allclose(own.values(states.output)[:ROWS], values, atol=1e-4)


@DOUBLE
def test_loss_selection_and_target_have_noise_of_their_own(double: bool) -> None:
    rng = np.random.default_rng(5)
    drawn = transitions(rng, ROWS, noise=5)
    online, target = table(rng, ROWS, ATOMS), table(rng, ROWS, ATOMS)
    own = c51(double=double, noisy=True)
    own.loss(online, own.targets(online, target, drawn), 0.0)
    rows = [drawn.noise[k : k + 1] for k in range(3)]  # of the loss, the selection and the target
    assert same(online.noises, [*([rows[1]] if double else []), rows[0]])
    assert same(target.noises, rows[2:])


def test_rainbow_is_double_dueling_and_three_steps() -> None:
    """And chooses as double Q-learning does, without being told."""
    own = Rainbow(RainbowConfig(atoms=ATOMS, value_min=LOW, value_max=HIGH), DISCRETE)
    rng = np.random.default_rng(6)
    drawn, online, target = transitions(rng, ROWS), table(rng, ROWS, ATOMS), table(rng, ROWS, ATOMS)
    assert own.returns.steps == 3
    assert RainbowConfig().dueling
    expected = c51(double=True).targets(online, target, drawn).target
    assert torch.equal(own.targets(online, target, drawn).target, expected)
    assert not torch.equal(c51().targets(online, target, drawn).target, expected)


def test_bounds_that_do_not_hold_the_returns_are_warned_about() -> None:
    config = C51Config(value_min=-10.0, value_max=10.0)
    assert config.warn_about({}) is None
    assert config.warn_about({"train/outer_atoms_probability": 0.2}) is None
    warning = config.warn_about({"train/outer_atoms_probability": 0.4})
    assert warning is not None
    assert (
        warning.startswith("40% of the targets' probability")
        and "--value-min -10 to --value-max 10" in warning
    )
