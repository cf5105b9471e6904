"""Losses that lie far above a learner's own."""

from __future__ import annotations

import numpy as np
import pytest

from veldt.systems.gorila.outliers import Outliers


def test_mean_and_deviation_are_those_of_all_losses() -> None:
    losses = np.random.default_rng(1).gamma(2.0, size=900)
    outliers = Outliers(0.0)
    assert not any(outliers.is_outlier(float(loss)) for loss in losses)
    assert outliers.mean == pytest.approx(losses.mean()) and outliers.deviation == pytest.approx(losses.std())
    assert (outliers.seen, outliers.num_found) == (900, 0)


def test_only_losses_above_the_limit_are_outliers() -> None:
    rng = np.random.default_rng(2)
    outliers = Outliers(3.0)
    for loss in rng.normal(10.0, 1.0, 500).clip(8.0, 12.0):
        assert not outliers.is_outlier(float(loss))
    limit = outliers.mean + 3.0 * outliers.deviation
    assert outliers.is_outlier(limit + 0.1) and not outliers.is_outlier(limit - 0.1)
    assert outliers.is_outlier(-limit - 1.0), "the size counts, as DDPG's losses may be negative"
    assert not outliers.is_outlier(0.0), "less than usual is no outlier"
    assert outliers.num_found == 2
    outliers.is_outlier(1e9)
    assert outliers.is_outlier(50.0), "a large one does not hide those that follow"


@pytest.mark.parametrize("deviations", [0.5, 1.0, 2.0])
def test_as_many_are_found_as_lie_above_the_losses_own_mean_and_deviation(deviations: float) -> None:
    """Outliers must not change the statistics for later losses."""
    losses = np.abs(np.random.default_rng(4).normal(10.0, 2.0, 20_000))
    outliers = Outliers(deviations)
    found = np.mean([outliers.is_outlier(float(loss)) for loss in losses])
    share = np.mean(losses > losses.mean() + deviations * losses.std())
    assert found == pytest.approx(share, rel=0.1)


def test_none_of_the_first_losses_is_an_outlier() -> None:
    outliers = Outliers(2.0)
    assert not any(outliers.is_outlier(loss) for loss in (1.0, 1.1, 0.9, 1e6) for _ in range(20))


def test_losses_that_stay_high_stop_being_outliers() -> None:
    rng = np.random.default_rng(3)
    outliers = Outliers(4.0)
    for loss in rng.gamma(2.0, size=2000):
        outliers.is_outlier(float(loss))
    found = [outliers.is_outlier(float(loss)) for loss in 20.0 * rng.gamma(2.0, size=3000)]
    assert np.mean(found[:50]) > 0.5 and np.mean(found[-1000:]) < 0.05


def test_equal_losses_are_no_outliers() -> None:
    outliers = Outliers(1.0)
    assert not any(outliers.is_outlier(0.1) for _ in range(500))
