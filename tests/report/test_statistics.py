"""The statistics of Agarwal et al. (2021) equal naive sums, and what rliable and scipy computed once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from veldt.errors import UsageError
from veldt.report import statistics
from veldt.report.statistics import (
    interquartile_mean,
    mean,
    median,
    median_of_runs,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    stratified_interval,
)

X = np.array(
    [
        [1.001, 1.239, 0.781, 0.288],
        [0.636, 0.207, 1.048, 2.072],
        [0.606, 0.504, 1.392, 1.286],
        [1.084, 0.256, 0.977, 1.556],
        [-0.075, 0.634, -0.521, -0.032],
    ]
)
Y = np.array(
    [
        [1.001, 0.659, 0.04, 0.963],
        [0.894, 0.688, -0.71, 0.477],
        [0.771, 0.868, -0.118, 0.513],
        [0.213, 0.315, 1.437, 0.315],
    ]
)

# Quarters, so that sums are exact and ties occur.
values = st.integers(-20, 20).map(lambda number: number / 4)
scores = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=values)
)
pairs = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4)).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, (n[0], n[2]), elements=values), arrays(np.float64, (n[1], n[2]), elements=values)
    )
)


def test_values_that_rliable_computed() -> None:
    assert mean(X) == pytest.approx(0.74695, abs=1e-6)
    assert median(X) == pytest.approx(0.6929, abs=1e-6)
    assert interquartile_mean(X) == pytest.approx(0.7559, abs=1e-6)  # scipy's trim_mean, too
    assert optimality_gap(X) == pytest.approx(0.38695, abs=1e-6)
    assert probability_of_improvement(X, Y) == pytest.approx(0.50625, abs=1e-6)
    taus = [-1.0, 0.0, 0.5, 0.207, 1.0, 2.0]
    np.testing.assert_allclose(performance_profile(X, taus), [1.0, 0.85, 0.7, 0.8, 0.4, 0.05], atol=1e-6)


@pytest.mark.parametrize(
    ("statistic", "arrays_of_scores", "low", "high"),
    [
        (mean, (X,), 0.48675, 0.9947),
        (median, (X,), 0.4451975, 0.9752),
        (interquartile_mean, (X,), 0.4544, 1.0256),
        (optimality_gap, (X,), 0.20714875, 0.59085125),
        (probability_of_improvement, (X, Y), 0.3, 0.70640625),
    ],
)
def test_intervals_that_rliable_drew(
    statistic: Callable[..., Any], arrays_of_scores: tuple[np.ndarray, ...], low: float, high: float
) -> None:
    # Both are estimates: rliable's from 20,000 draws or more, with other random numbers.
    ends = stratified_interval(statistic, *arrays_of_scores, repeats=10_000, seed=3)
    assert ends == pytest.approx((low, high), abs=0.02)


@given(scores)
def test_means_and_medians_are_those_of_python(x: np.ndarray) -> None:
    runs, tasks = x.shape
    everything = sorted(float(x[run, task]) for run in range(runs) for task in range(tasks))
    of_tasks = sorted(sum(float(x[run, task]) for run in range(runs)) / runs for task in range(tasks))
    assert mean(x) == pytest.approx(sum(everything) / len(everything))
    assert median(x) == pytest.approx((of_tasks[(tasks - 1) // 2] + of_tasks[tasks // 2]) / 2)
    middle = everything[(len(everything) - 1) // 2], everything[len(everything) // 2]
    assert median_of_runs(x) == pytest.approx(sum(middle) / 2)
    for _ in range(len(everything) // 4):
        everything = everything[1:-1]
    assert interquartile_mean(x) == pytest.approx(sum(everything) / len(everything))


@given(scores, st.lists(values, min_size=1, max_size=5))
def test_gap_and_profile_count_score_by_score(x: np.ndarray, taus: list[float]) -> None:
    everything = [float(score) for score in x.ravel()]
    missed = [max(0.0, 1.0 - score) for score in everything]
    assert optimality_gap(x) == pytest.approx(sum(missed) / len(missed))
    shares = [sum(score > tau for score in everything) / len(everything) for tau in taus]
    np.testing.assert_allclose(performance_profile(x, taus), shares)


@given(pairs)
def test_improvement_counts_pairs(both: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = both
    of_tasks = [
        sum((a > b) + 0.5 * (a == b) for a, b in itertools.product(x[:, task], y[:, task]))
        / (len(x) * len(y))
        for task in range(x.shape[1])
    ]
    assert probability_of_improvement(x, y) == pytest.approx(sum(of_tasks) / len(of_tasks))
    assert probability_of_improvement(x, y) + probability_of_improvement(y, x) == pytest.approx(1.0)


def test_the_interval_is_that_of_all_draws() -> None:
    # Three runs have 27 equally likely draws; far from the jumps of their quantiles the drawn interval is exact.
    runs = (1.0, 2.0, 10.0)
    means = sorted(sum(draw) / 3 for draw in itertools.product(runs, repeat=3))
    exact = np.quantile(means, (0.1, 0.9), method="inverted_cdf")
    np.testing.assert_allclose(
        stratified_interval(mean, np.array(runs)[:, None], repeats=20_000, seed=0, level=0.8), exact
    )


def test_runs_are_drawn_within_each_task() -> None:
    # Scores of other tasks would be far outside; the same runs for both tasks would always have the mean 50.
    x = np.array([[0.0, 100.0], [1.0, 99.0]])
    low, high = stratified_interval(mean, x, repeats=4000, seed=0, level=0.99)
    assert (low, high) == (49.5, 50.5)


def test_a_curve_has_an_interval_at_each_point() -> None:
    curves = np.random.default_rng(0).normal(size=(5, 1, 7))
    low, high = stratified_interval(interquartile_mean, curves, repeats=500, seed=1)
    at_one = stratified_interval(interquartile_mean, curves[:, :, 3], repeats=500, seed=1)
    assert np.shape(low) == np.shape(high) == (7,)
    assert (np.asarray(low)[3], np.asarray(high)[3]) == pytest.approx(at_one)


@pytest.mark.parametrize(
    "statistic",
    [
        mean,
        median,
        median_of_runs,
        interquartile_mean,
        optimality_gap,
        lambda x: performance_profile(x, [-0.5, 0.0, 0.5]),
        lambda x: probability_of_improvement(x, x[::-1] + 0.1),
    ],
)
def test_a_statistic_is_computed_at_each_place_of_further_axes(statistic: Callable[..., Any]) -> None:
    x = np.random.default_rng(2).normal(size=(5, 3, 4, 2))
    found = np.asarray(statistic(x))
    for place in np.ndindex(4, 2):
        np.testing.assert_allclose(found[place], statistic(x[(slice(None), slice(None), *place)]))


def test_draws_are_independent_of_how_many_are_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    together = stratified_interval(interquartile_mean, X, repeats=50, seed=1)
    monkeypatch.setattr(statistics, "_AT_ONCE", X.size * 7)
    assert stratified_interval(interquartile_mean, X, repeats=50, seed=1) == pytest.approx(together)


def test_the_same_seed_draws_the_same() -> None:
    first, again, other = (stratified_interval(mean, X, repeats=50, seed=seed) for seed in (4, 4, 5))
    assert first == again != other


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: stratified_interval(mean, X[:1], repeats=9, seed=0), "a single run has no interval"),
        (
            lambda: stratified_interval(probability_of_improvement, X, Y[:1], repeats=9, seed=0),
            "a single run has no interval",
        ),
        (lambda: stratified_interval(mean, X, repeats=0, seed=0), "repeats is 0: it must be at least 1"),
        (lambda: stratified_interval(mean, X, repeats=9, seed=0, level=1.0), "level is 1.0: it must be"),
        (lambda: mean([1.0, 2.0]), r"scores have the shape \[2\]: it must be \[runs, tasks\]"),
        (lambda: median(np.empty((0, 3))), r"scores have the shape \[0, 3\]"),
        (lambda: interquartile_mean([[1.0, np.nan]]), "a score is not finite"),
        (lambda: probability_of_improvement(X, Y[:, :2]), "x has scores of 4 tasks and y of 2"),
    ],
)
def test_what_has_no_statistic_is_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call()
