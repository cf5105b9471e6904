"""Prioritised sampling against its formulas (Schaul et al. 2016, section 3.3)."""

from __future__ import annotations

import numpy as np
import pytest
from rings import chi_square, ring_of

from veldt.replay.batch import importance_weights
from veldt.replay.sampling_strategy import Prioritised

ALPHA = 0.6
NONE = np.empty(0, np.int64)


def index_of(count: int, alpha: float = ALPHA) -> Prioritised:
    """One env's rows 0, ..., count - 1, as new."""
    index = Prioritised(ring_of([[True] * count], share=count), alpha)
    index.written(NONE, np.arange(count), None)
    return index


def test_rows_are_drawn_by_their_priority_to_the_power_of_alpha() -> None:
    priority = np.array([0.1, 0.5, 1.0, 2.0, 4.0, 0.0, 9.0])
    index = index_of(len(priority))
    index.update(np.arange(len(priority)), priority)
    share = (priority + 1e-6) ** ALPHA
    # One at a time: the draws of a batch are spread more evenly than chance would.
    drawn = np.concatenate([index.sample(1, seed)[0] for seed in range(20_000)])
    assert abs(chi_square(drawn, dict(enumerate(share / share.sum())))) < 4
    np.testing.assert_allclose(index.tree.leaves[: len(priority)], share, rtol=1e-12)


def test_the_draws_of_a_batch_are_one_for_each_equal_piece_of_the_total() -> None:
    index = index_of(8, alpha=1.0)
    index.update(np.arange(8), np.array([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]) - 1e-6)
    for seed in range(50):
        drawn, _ = index.sample(16, seed)
        assert np.bincount(drawn, minlength=8).tolist() == [1, 1, 1, 1, 2, 2, 4, 4]
    places = np.concatenate([index.sample(2, seed)[0] for seed in range(300)])
    assert set(places[0::2].tolist()) == {0, 1, 2, 3, 4, 5}  # the lower half, all of it
    assert set(places[1::2].tolist()) == {6, 7}


def test_samples_depend_on_the_seed_alone() -> None:
    index = index_of(500)
    first, again, other = (index.sample(32, seed)[0].tolist() for seed in (2**64 - 1, 2**64 - 1, 3))
    assert first == again != other


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_are_those_of_the_formula(beta: float) -> None:
    rng = np.random.default_rng(0)
    priority = rng.exponential(size=50)
    index = index_of(50)
    index.update(np.arange(50), priority)
    drawn, mass = index.sample(20, 5)
    weight = importance_weights(mass, beta)
    probability = (priority + 1e-6) ** ALPHA / ((priority + 1e-6) ** ALPHA).sum()
    wanted = (50 * probability[drawn]) ** -beta
    np.testing.assert_allclose(weight, wanted / wanted.max(), rtol=1e-5)
    assert weight.dtype == np.float32 and weight.max() == 1


def test_new_rows_get_the_largest_priority_so_far() -> None:
    """The largest raw priority: one that was raised to α already would be raised twice."""
    index = index_of(4)
    index.update(np.array([0, 1]), np.array([16.0, 3.0]))
    index.update(np.array([0]), np.array([2.0]))  # the largest so far is remembered
    index.written(NONE, np.array([2]), None)
    wanted = (np.array([2.0, 3.0, 16.0, 1.0]) + 1e-6) ** ALPHA
    np.testing.assert_allclose(index.tree.leaves[:4], wanted, rtol=1e-12)


def test_new_rows_may_bring_their_own_priority() -> None:
    index = index_of(4)
    index.written(NONE, np.array([0, 1, 2]), np.array([5.0, np.nan, 0.5]))
    wanted = (np.array([5.0, 5.0, 0.5, 1.0]) + 1e-6) ** ALPHA
    np.testing.assert_allclose(index.tree.leaves[:4], wanted, rtol=1e-12)


def test_the_mass_is_of_all_that_can_be_drawn() -> None:
    index = index_of(6)
    index.update(np.arange(6), np.arange(6.0))
    index.written(np.array([0, 4]), NONE, None)
    assert index.mass == pytest.approx(sum((priority + 1e-6) ** ALPHA for priority in (1, 2, 3, 5)))


def test_overwritten_rows_are_not_drawn() -> None:
    index = index_of(6)
    index.written(np.array([0, 2, 4]), NONE, None)
    drawn = np.concatenate([index.sample(9, seed)[0] for seed in range(100)])
    assert set(drawn.tolist()) == {1, 3, 5}
