"""Targets, errors and distributional losses against their formulas, one row at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.functional.q_learning import categorical_td_loss, expected, huber, td_target

SUPPORT = torch.linspace(-10.0, 10.0, 51)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@given(rows=st.integers(1, 6), actions=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_double_q_learning_selects_with_one_network_and_evaluates_with_the_other(
    rows: int, actions: int, seed: int
) -> None:
    reward, next_q, selector = (
        normal(rows, seed=seed),
        normal(rows, actions, seed=seed + 1),
        normal(rows, actions),
    )
    discount = torch.tensor([0.0, 0.99, 0.9])[torch.arange(rows) % 3]
    got = td_target(reward, discount, next_q, selector)
    for n in range(rows):
        best = max(range(actions), key=lambda a: float(selector[n, a]))
        assert float(got[n]) == pytest.approx(float(reward[n] + discount[n] * next_q[n, best]), abs=1e-5)


def test_double_q_learning_ignores_the_target_networks_best_action() -> None:
    next_q, online = torch.tensor([[1.0, 9.0, 2.0]]), torch.tensor([[0.0, 1.0, 5.0]])
    reward, discount = torch.tensor([0.5]), torch.tensor([0.5])
    assert td_target(reward, discount, next_q, online).tolist() == [0.5 + 0.5 * 2.0]
    assert td_target(reward, discount, next_q, next_q).tolist() == [0.5 + 0.5 * 9.0]


def test_targets_carry_no_gradient() -> None:
    next_q, online = normal(4, 3).requires_grad_(), normal(4, 3, seed=1).requires_grad_()
    assert not td_target(torch.zeros(4), torch.ones(4), next_q, online).requires_grad


@pytest.mark.parametrize("delta", [0.5, 1.0, 3.0])
def test_huber_is_quadratic_near_zero_and_linear_beyond(delta: float) -> None:
    error = torch.linspace(-5.0, 5.0, 101).requires_grad_()
    loss = huber(error, delta)
    for e, value in zip(error.tolist(), loss.tolist(), strict=True):
        straight = delta * (abs(e) - 0.5 * delta)
        assert value == pytest.approx(0.5 * e * e if abs(e) <= delta else straight, abs=1e-5)
    loss.sum().backward()
    # Mnih et al. 2015: the error is clipped.
    torch.testing.assert_close(error.grad, error.detach().clamp(-delta, delta))


def test_cross_entropy_and_divergence_are_the_sums() -> None:
    logits, target = 2 * normal(20, 11), (2 * normal(20, 11, seed=1)).softmax(-1)
    target[0] = torch.eye(11)[3]  # what projections of terminal transitions look like
    cross_entropy, divergence = categorical_td_loss(logits, target)
    p, t = logits.double().softmax(-1).numpy(), target.double().numpy()
    for n in range(20):
        inside = t[n] > 0
        assert float(cross_entropy[n]) == pytest.approx(-np.sum(t[n] * np.log(p[n])), rel=1e-4)
        kl = np.sum(t[n][inside] * np.log(t[n][inside] / p[n][inside]))
        assert float(divergence[n]) == pytest.approx(kl, rel=1e-3, abs=1e-5)


def test_divergence_from_itself_is_zero_and_never_less() -> None:
    logits = 3 * normal(500, 51)
    _, divergence = categorical_td_loss(logits, logits.softmax(-1))
    assert (divergence >= 0).all()
    assert float(divergence.max()) < 1e-5


def test_only_the_loss_and_only_the_logits_have_a_gradient() -> None:
    logits, source = normal(3, 5).requires_grad_(), normal(3, 5, seed=1).requires_grad_()
    target = source.softmax(-1)
    cross_entropy, divergence = categorical_td_loss(logits, target)
    assert not divergence.requires_grad
    cross_entropy.sum().backward()
    torch.testing.assert_close(logits.grad, (logits.softmax(-1) - target).detach())
    assert source.grad is None


def test_the_value_of_a_distribution_is_its_mean() -> None:
    logits = torch.full((2, 3, 51), -1e4)
    logits[0, 0, 50] = logits[0, 1, 0] = logits[0, 2, 25] = logits[1, 0, 50] = logits[1, 0, 0] = 0.0
    values = expected(logits, SUPPORT)
    assert values.shape == (2, 3)
    np.testing.assert_allclose(values[0], [10.0, -10.0, 0.0], atol=1e-5)
    assert float(values[1, 0]) == pytest.approx(0.0, abs=1e-5)
