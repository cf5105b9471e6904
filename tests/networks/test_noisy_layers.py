"""Noisy layers against the dense formula: for each row, a matrix with its noise in it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from veldt.networks.noisy import NoisyLinear

INPUTS, OUTPUTS, ROWS = 6, 4, 5


def layer(sigma: float = 0.5) -> NoisyLinear:
    torch.manual_seed(0)
    made = NoisyLinear(INPUTS, OUTPUTS, sigma)
    with torch.no_grad():  # deviations that differ, so that none can stand for another
        made.weight_sigma.add_(0.1 * torch.randn(OUTPUTS, INPUTS))
        made.bias_sigma.add_(0.1 * torch.randn(OUTPUTS))
    return made


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def dense(made: NoisyLinear, x_I: Tensor, noise_K: Tensor) -> Tensor:
    """Fortunato et al. 2018, equations 9 to 11, for one row."""
    transformed = noise_K.sign() * noise_K.abs().sqrt()
    into, out = transformed[:INPUTS], transformed[INPUTS:]
    weight = made.weight + made.weight_sigma * torch.outer(out, into)
    return weight @ x_I + made.bias + made.bias_sigma * out


def test_each_row_has_the_noisy_matrix_of_its_own_noise() -> None:
    made, x, noise = layer(), normal(ROWS, INPUTS), normal(ROWS, INPUTS + OUTPUTS)
    assert made.noise_width == INPUTS + OUTPUTS
    expected = torch.stack([dense(made, x[n], noise[n]) for n in range(ROWS)])
    torch.testing.assert_close(made(x, noise), expected)


def test_one_noise_may_be_shared_by_all_rows() -> None:
    made, x, noise = layer(), normal(ROWS, INPUTS), normal(1, INPUTS + OUTPUTS)
    torch.testing.assert_close(made(x, noise), torch.stack([dense(made, row, noise[0]) for row in x]))


def test_a_rows_output_does_not_depend_on_the_noise_of_other_rows() -> None:
    made, x, noise = layer(), normal(ROWS, INPUTS), normal(ROWS, INPUTS + OUTPUTS)
    before = made(x, noise)
    noise[2] = -noise[2]
    changed = (made(x, noise) != before).any(-1)
    assert changed.tolist() == [n == 2 for n in range(ROWS)]


def test_without_noise_the_means_are_used() -> None:
    made, x = layer(), normal(ROWS, INPUTS)
    assert torch.equal(made(x), x @ made.weight.T + made.bias)
    torch.testing.assert_close(made(x, torch.zeros(1, INPUTS + OUTPUTS)), made(x))


def test_gradients_are_those_of_the_dense_formula() -> None:
    made, x, noise = layer(), normal(ROWS, INPUTS), normal(ROWS, INPUTS + OUTPUTS)
    parameters = list(made.parameters())
    got = torch.autograd.grad(made(x, noise).square().sum(), parameters)
    rows = torch.stack([dense(made, x[n], noise[n]) for n in range(ROWS)])
    for mine, expected in zip(got, torch.autograd.grad(rows.square().sum(), parameters), strict=True):
        torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_first_parameters_are_the_papers(sigma: float) -> None:
    torch.manual_seed(0)
    made = NoisyLinear(400, 300, sigma)
    for mean in (made.weight, made.bias):
        assert float(mean.detach().abs().max()) == pytest.approx(1 / 20, rel=0.02)
        assert abs(float(mean.detach().mean())) < 0.005
    assert torch.equal(made.weight_sigma, torch.full((300, 400), sigma / 20))
    assert torch.equal(made.bias_sigma, torch.full((300,), sigma / 20))
