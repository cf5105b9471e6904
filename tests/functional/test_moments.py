"""Merged moments of a stream against numpy's over all of it, and against Gymnasium's running mean and variance."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.wrappers.utils import RunningMeanStd

from veldt.functional.moments import Moments


def stream(offset: float, deviation: float, batches: int) -> list[np.ndarray]:
    """Float32 batches [N, 3] of different sizes, as envs write them."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 40, batches)
    return [(offset + deviation * rng.standard_normal((size, 3))).astype(np.float32) for size in sizes]


def merged(batches: list[np.ndarray]) -> Moments:
    moments = Moments.none((3,))
    for batch in batches:
        moments = moments.merged(Moments.of(batch))
    return moments


@pytest.mark.parametrize("batches", [1, 10_000])
@pytest.mark.parametrize(("offset", "deviation"), [(0, 1), (1e4, 1e-2), (-1e6, 1), (1e-6, 1e-8), (3e7, 1e5)])
def test_merged_batches_have_the_moments_of_the_whole_stream(
    offset: float, deviation: float, batches: int
) -> None:
    given = stream(offset, deviation, batches)
    moments, whole = merged(given), np.concatenate(given).astype(np.float64)
    assert moments.count == len(whole)
    np.testing.assert_allclose(moments.mean, whole.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, whole.var(0), rtol=1e-9)


def test_they_are_those_of_gymnasium() -> None:
    given, gymnasium_ones = stream(3.0, 2.0, 50), RunningMeanStd(epsilon=0.0, shape=(3,))
    for batch in given:
        gymnasium_ones.update(batch.astype(np.float64))
    moments = merged(given)
    np.testing.assert_allclose(moments.mean, gymnasium_ones.mean, rtol=1e-12)
    np.testing.assert_allclose(moments.variance, gymnasium_ones.var, rtol=1e-12)


def test_no_values_change_nothing() -> None:
    none, some = Moments.none((3,)), Moments.of(stream(2.0, 1.0, 1)[0])
    assert none.variance.tolist() == [1.0] * 3
    assert none.merged(some) is some and some.merged(none) is some
    assert not Moments.of(np.empty((0, 3), np.float32)).count


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_numbers_hold_every_bit(shape: tuple[int, ...]) -> None:
    moments = Moments.of(np.random.default_rng(2).standard_normal((7, *shape)))
    again = Moments.of_numbers(moments.numbers(), shape)
    assert again.count == moments.count
    np.testing.assert_array_equal(again.mean, moments.mean)
    np.testing.assert_array_equal(again.variance, moments.variance)
