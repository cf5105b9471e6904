"""Densities and entropies against torch.distributions, and samples against their own frequencies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, distributions

from veldt.envs.seeding import ACTION, uniform
from veldt.functional.distributions import Categorical, Gaussian, MultiCategorical

SIZES = (3, 2, 5)
DRAWS = 40_000


def random_parameters(count: int, rows: int = 50) -> Tensor:
    return torch.randn(rows, count, generator=torch.Generator().manual_seed(0)) * 2


def draws(noise: int) -> Tensor:
    """Uniform noise as the sampler makes it, [DRAWS, noise]."""
    return torch.from_numpy(uniform(3, ACTION, np.arange(40), np.arange(DRAWS // 40), noise)).flatten(0, 1)


def assert_frequencies(chosen: Tensor, probability: Tensor) -> None:
    """Pearson's statistic is below its mean plus 5 standard deviations."""
    expected = probability.double() * len(chosen)
    counted = torch.bincount(chosen, minlength=len(probability)).double()
    freedom = len(probability) - 1
    assert float(((counted - expected).square() / expected).sum()) < freedom + 5 * (2 * freedom) ** 0.5


def test_categorical_density_and_entropy() -> None:
    logits, own = random_parameters(6), Categorical(6)
    reference = distributions.Categorical(logits=logits)
    action = reference.sample()
    torch.testing.assert_close(own.log_prob(logits, action), reference.log_prob(action))
    torch.testing.assert_close(own.entropy(logits), reference.entropy())
    assert torch.equal(own.mode(logits), logits.argmax(-1))


def test_multi_categorical_density_and_entropy_are_sums_over_dimensions() -> None:
    logits, own = random_parameters(sum(SIZES)), MultiCategorical(SIZES)
    parts = [distributions.Categorical(logits=part) for part in logits.split(list(SIZES), -1)]
    action = torch.stack([part.sample() for part in parts], -1)
    log_prob = sum(part.log_prob(action[:, d]) for d, part in enumerate(parts))
    torch.testing.assert_close(own.log_prob(logits, action), log_prob)
    torch.testing.assert_close(own.entropy(logits), sum(part.entropy() for part in parts))
    assert torch.equal(own.mode(logits), torch.stack([part.logits.argmax(-1) for part in parts], -1))


def test_gaussian_density_and_entropy() -> None:
    parameters, own = random_parameters(6) / 2, Gaussian(3)
    mean, log_deviation = parameters.chunk(2, -1)
    reference = distributions.Independent(distributions.Normal(mean, log_deviation.exp()), 1)
    action = reference.sample()
    torch.testing.assert_close(own.log_prob(parameters, action), reference.log_prob(action))
    torch.testing.assert_close(own.entropy(parameters), reference.entropy())
    assert torch.equal(own.mode(parameters), mean)


def test_categorical_samples_have_the_policys_frequencies() -> None:
    own, logits = Categorical(4), torch.tensor([0.0, 1.0, -1.0, 2.0])
    chosen = own.sample(logits.expand(DRAWS, -1), own.prepare(draws(own.num_noise)))
    assert_frequencies(chosen, logits.softmax(-1))


def test_multi_categorical_dimensions_have_their_frequencies_and_are_independent() -> None:
    own, logits = MultiCategorical((3, 2)), torch.tensor([0.0, 1.0, -1.0, 0.5, 0.0])
    chosen = own.sample(logits.expand(DRAWS, -1), own.prepare(draws(own.num_noise)))
    first, second = logits[:3].softmax(-1), logits[3:].softmax(-1)
    joint = (first[:, None] * second[None]).flatten()
    assert_frequencies(chosen[:, 0] * 2 + chosen[:, 1], joint)


def test_gaussian_samples_fall_evenly_into_the_quantiles() -> None:
    own, parameters = Gaussian(2), torch.tensor([1.0, -2.0, 0.5, -1.0])
    chosen = own.sample(parameters.expand(DRAWS, -1), own.prepare(draws(own.num_noise)))
    for d in range(2):
        reference = distributions.Normal(parameters[d], parameters[2 + d].exp())
        quantile = reference.cdf(chosen[:, d])
        assert_frequencies((quantile * 20).long().clamp(max=19), torch.full((20,), 0.05))
    correlation = torch.corrcoef(chosen.T)[0, 1]
    assert abs(float(correlation)) < 5 / DRAWS**0.5


@pytest.mark.parametrize("own", [Categorical(4), MultiCategorical((3, 2)), Gaussian(2)])
def test_a_sample_depends_on_its_noise_and_not_on_its_batch(
    own: Categorical | MultiCategorical | Gaussian,
) -> None:
    parameters = random_parameters(own.num_parameters, 32)
    noise = own.prepare(draws(own.num_noise)[:32])
    together = own.sample(parameters, noise)
    apart = torch.cat([own.sample(parameters[n : n + 1], noise[n : n + 1]) for n in range(32)])
    assert torch.equal(together, apart)


@pytest.mark.parametrize("own", [Categorical(4), Gaussian(1)])
def test_the_extremes_of_the_noise_are_finite(own: Categorical | Gaussian) -> None:
    ends = torch.tensor([2.0**-24, 1 - 2.0**-24])
    assert own.prepare(ends).isfinite().all()
