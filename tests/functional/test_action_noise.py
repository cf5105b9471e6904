"""The counter-based noise of actions: a function of (seed, stream, env, step), uniform and independent."""

from __future__ import annotations

import numpy as np
import pytest

from veldt.envs import seeding
from veldt.envs.seeding import ACTION, EVALUATION, uniform

ENVS, STEPS, COUNT = 64, 128, 4


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """[STEPS, ENVS, COUNT]"""
    return uniform(1, ACTION, np.arange(ENVS), np.arange(STEPS), COUNT)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return abs(float(np.corrcoef(a.ravel().astype(float), b.ravel().astype(float))[0, 1]))


def test_numbers_do_not_depend_on_the_batch_they_are_made_in(noise: np.ndarray) -> None:
    envs, steps = np.array([40, 3, 17]), np.array([99, 5])
    some = uniform(1, ACTION, envs, steps, COUNT)
    assert np.array_equal(some, noise[steps][:, envs])


def test_fewer_numbers_per_step_are_the_first_of_more(noise: np.ndarray) -> None:
    assert np.array_equal(uniform(1, ACTION, np.arange(ENVS), np.arange(STEPS), 2), noise[..., :2])


def test_strictly_inside_the_unit_interval() -> None:
    many = uniform(2, ACTION, np.arange(256), np.arange(1024), 8)
    assert many.dtype == np.float32
    assert 0.0 < many.min() < 1e-5
    assert 1.0 - 1e-5 < many.max() < 1.0
    # Odd multiples of 2^-24: neither end can be hit, however long a run is.
    assert (many * 2**24 % 2 == 1).all()


def test_noise_is_uniform(noise: np.ndarray) -> None:
    bins = 64
    expected = noise.size / bins
    counted, _ = np.histogram(noise, bins, (0, 1))
    statistic = float(((counted - expected) ** 2 / expected).sum())
    freedom = bins - 1
    assert abs(statistic - freedom) < 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["steps", "envs", "numbers"])
def test_neighbours_are_independent(noise: np.ndarray, axis: int) -> None:
    ahead = np.moveaxis(noise, axis, 0)
    assert correlation(ahead[1:], ahead[:-1]) < 5 / noise.size**0.5
    # Independent bits, not only an uncorrelated whole: half the top bits of neighbours agree.
    agreeing = ((ahead[1:] < 0.5) == (ahead[:-1] < 0.5)).mean()
    assert abs(agreeing - 0.5) < 5 * 0.5 / noise.size**0.5


def test_diagonals_are_independent(noise: np.ndarray) -> None:
    """Env b at step t + 1 is not env b + 1 at step t: counters are mixed, not added."""
    assert correlation(noise[1:, :-1], noise[:-1, 1:]) < 5 / noise.size**0.5


def test_streams_and_seeds_are_independent(noise: np.ndarray) -> None:
    others = [(1, EVALUATION), (2, ACTION), (0, ACTION), (1 + 2**40, ACTION)]
    for seed, stream in others:
        other = uniform(seed, stream, np.arange(ENVS), np.arange(STEPS), COUNT)
        assert correlation(noise, other) < 5 / noise.size**0.5


def test_no_two_streams_of_neighbouring_seeds_share_a_key() -> None:
    streams = [value for name, value in vars(seeding).items() if name.isupper() and isinstance(value, int)]
    assert len(set(streams)) == 8
    first = {
        (seed, stream): uniform(seed, stream, np.zeros(1), np.zeros(1), 2).tobytes()
        for seed in range(100)
        for stream in streams
    }
    assert len(set(first.values())) == len(first)


def test_no_step_repeats_another() -> None:
    """Long runs count steps into the thousands of millions."""
    steps = np.array([0, 1, 2**20, 2**31, 2**32, 2**32 + 1, 10**10])
    rows = uniform(1, ACTION, np.arange(2), steps, 4).reshape(-1, 4)
    assert len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.parametrize("seed", [0, 2**31, 2**61, 2**63 - 1, 2**64 + 3])
def test_every_seed_that_is_accepted_works(seed: int) -> None:
    assert uniform(seed, ACTION, np.arange(2), np.arange(2), 3).shape == (2, 2, 3)
