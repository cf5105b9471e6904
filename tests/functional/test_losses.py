"""The clipped losses against their formulas, one row at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from veldt.functional.losses import approximate_kl, clipped_surrogate, clipped_value_error

RNG = np.random.default_rng(0)
ROWS = 200


def float_tensor(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def test_surrogate_equals_the_papers_formula() -> None:
    log_ratio, advantage = RNG.normal(0, 0.3, ROWS), RNG.normal(size=ROWS)
    got = clipped_surrogate(float_tensor(log_ratio), float_tensor(advantage), 0.2)
    for n in range(ROWS):
        ratio = math.exp(log_ratio[n])
        clipped = min(max(ratio, 0.8), 1.2)
        assert float(got[n]) == pytest.approx(-min(ratio * advantage[n], clipped * advantage[n]), abs=1e-5)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.3, 1.0, False), (0.7, 1.0, True), (1.3, -1.0, True), (0.7, -1.0, False), (1.1, 1.0, True)],
)
def test_surrogate_has_no_gradient_where_the_ratio_is_clipped(
    ratio: float, advantage: float, moves: bool
) -> None:
    log_ratio = float_tensor([math.log(ratio)]).requires_grad_()
    clipped_surrogate(log_ratio, float_tensor([advantage]), 0.2).sum().backward()
    assert log_ratio.grad is not None
    assert bool(log_ratio.grad != 0) == moves


@pytest.mark.parametrize("advantage", [3.0, -3.0])
def test_a_ratio_beyond_float32_leaves_the_gradient_of_all_rows_finite(advantage: float) -> None:
    """As that of one continuous action that a much narrower policy now takes for certain."""
    log_ratio = float_tensor([0.1, 100.0]).requires_grad_()
    loss = clipped_surrogate(log_ratio, float_tensor([advantage, advantage]), 0.2)
    loss.sum().backward()
    assert torch.isfinite(loss).all() and log_ratio.grad is not None
    assert log_ratio.grad.tolist() == pytest.approx([-advantage * math.exp(0.1), 0.0])


def test_value_error_is_the_larger_of_clipped_and_unclipped() -> None:
    value, old, target = RNG.normal(size=(3, ROWS))
    got = clipped_value_error(float_tensor(value), float_tensor(old), float_tensor(target), 0.2)
    for n in range(ROWS):
        clipped = old[n] + min(max(value[n] - old[n], -0.2), 0.2)
        expected = max((value[n] - target[n]) ** 2, (clipped - target[n]) ** 2)
        assert float(got[n]) == pytest.approx(expected, abs=1e-5)


def test_approximate_kl_has_the_expectation_of_the_true_one() -> None:
    old, new = torch.tensor([0.2, 0.5, 0.3]), torch.tensor([0.3, 0.3, 0.4])
    log_ratio = (new / old).log()
    true = float((old * (old / new).log()).sum())
    assert float((old * approximate_kl(log_ratio)).sum()) == pytest.approx(true, rel=1e-5)
    assert (approximate_kl(torch.linspace(-3, 3, 101)) >= 0).all()
