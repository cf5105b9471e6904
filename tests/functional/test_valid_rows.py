"""Means and normalisation see valid rows only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from veldt.functional.losses import ValidRows

VALID = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])


def values(invalid: float) -> torch.Tensor:
    return torch.where(VALID > 0, torch.tensor([1.0, 0.0, -2.0, 5.0, 0.0, 0.5]), torch.tensor(invalid))


@pytest.mark.parametrize("invalid", [0.0, 1e30, float("nan"), float("inf")])
def test_the_mean_is_that_of_the_valid_rows(invalid: float) -> None:
    assert float(ValidRows(VALID).mean(values(invalid))) == pytest.approx(np.mean([1.0, -2.0, 5.0, 0.5]))


def test_the_mean_of_no_rows_is_zero() -> None:
    assert float(ValidRows(torch.zeros(3)).mean(torch.full((3,), float("nan")))) == 0.0


def test_invalid_rows_get_no_gradient() -> None:
    value = values(1e30).requires_grad_()
    ValidRows(VALID).mean(value.square()).backward()
    assert value.grad is not None
    np.testing.assert_allclose(value.grad, 2 * values(0.0) / 4)


def test_normalised_valid_rows_have_mean_zero_and_deviation_one() -> None:
    normal = ValidRows(VALID).normalise(values(7.0))[VALID > 0]
    expected = np.array([1.0, -2.0, 5.0, 0.5])
    np.testing.assert_allclose(normal, (expected - expected.mean()) / expected.std(), rtol=1e-5)


@pytest.mark.parametrize("invalid", [0.0, 1e15, float("nan")])
def test_normalised_valid_rows_do_not_depend_on_the_others(invalid: float) -> None:
    normal, other = (ValidRows(VALID).normalise(values(number)) for number in (invalid, 3.0))
    assert torch.equal(normal[VALID > 0], other[VALID > 0])


def test_equal_rows_become_zero_not_nan() -> None:
    assert ValidRows(torch.ones(4)).normalise(torch.full((4,), 2.5)).tolist() == [0.0] * 4
    assert ValidRows(torch.tensor([1.0, 0.0])).normalise(torch.tensor([2.5, 9.0]))[0] == 0.0


@pytest.mark.parametrize("shape", [(6, 1), (6, 6), (1,), ()])
def test_values_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    """torch would broadcast some of them, and the mean would be one of other numbers."""
    with pytest.raises(ValueError, match="has not one value for each of the rows"):
        ValidRows(VALID).mean(torch.ones(shape))
