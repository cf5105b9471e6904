"""Statistics of the scores of several runs, and how certain they are.

Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice". A task is an
environment; scores of several tasks must be normalised before they are averaged. All functions also take scores with
more axes, [runs, tasks, ...], and compute their statistic at each place of these: of curves [runs, tasks, points] the
result has the axis [points].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from veldt.errors import UsageError

_TRIMMED = 0.25  # of the scores, at either end
# Drawn scores of which a statistic is computed together: what they take fits the processor's caches.
_AT_ONCE = 2**18

Value = float | np.ndarray


def mean(scores: ArrayLike) -> Value:
    """The mean of all scores.

    Args:
        scores: float [runs, tasks].

    Raises:
        UsageError: `scores` has another shape, is empty, or has a value that is not finite (as in all functions here).
    """
    return _number(_checked(scores).mean(axis=(0, 1)))


def median(scores: ArrayLike) -> Value:
    """The median over tasks of each task's mean over runs: of a single task it is the mean.

    Args:
        scores: float [runs, tasks].
    """
    return _number(np.median(_checked(scores).mean(axis=0), axis=0))


def median_of_runs(scores: ArrayLike) -> Value:
    """The median of all scores; for a single task, whose runs `median` would average.

    Args:
        scores: float [runs, tasks].
    """
    return _number(np.median(_checked(scores), axis=(0, 1)))


def interquartile_mean(scores: ArrayLike) -> Value:
    """The mean of the middle half of all runs x tasks: without the int(n / 4) smallest and as many of the largest.

    Fewer than four scores have nothing to trim: of them it is the mean. Equals
    `scipy.stats.trim_mean(scores, 0.25, axis=None)`.

    Args:
        scores: float [runs, tasks].
    """
    checked = _checked(scores)
    ordered = np.sort(checked.reshape(-1, *checked.shape[2:]), axis=0)
    cut = int(_TRIMMED * len(ordered))
    return _number(ordered[cut : len(ordered) - cut].mean(axis=0))


def optimality_gap(scores: ArrayLike, gamma: float = 1.0) -> Value:
    """By how much the scores miss `gamma` on average; what a score has beyond it does not count.

    Args:
        scores: float [runs, tasks], normalised.
        gamma: the score to reach; 1 is a human's.
    """
    return _number(gamma - np.minimum(_checked(scores), gamma).mean(axis=(0, 1)))


def performance_profile(scores: ArrayLike, taus: ArrayLike) -> np.ndarray:
    """The share of runs x tasks with a score above each of `taus` (the score distribution of the paper's section 4.3).

    Args:
        scores: float [runs, tasks].
        taus: float [points].

    Returns:
        float64 [..., points], in [0, 1].
    """
    above = _checked(scores)[..., None] > np.asarray(taus, np.float64)
    return np.asarray(above.mean(axis=(0, 1)))


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> Value:
    """The probability that a run of `x` has a higher score than one of `y` on the same task; a tie counts as half.

    Mean over tasks of P(X > Y) + P(X = Y) / 2, over all pairs of runs: the Mann-Whitney U statistic, divided by the
    number of pairs. It depends only on the order of the scores in each task, so they need not be normalised.

    Args:
        x: float [runs of x, tasks].
        y: float [runs of y, tasks].

    Raises:
        UsageError: the numbers of tasks differ.
    """
    of_x, of_y = _checked(x), _checked(y)
    if of_x.shape[1] != of_y.shape[1]:
        raise UsageError(
            f"x has scores of {of_x.shape[1]} tasks and y of {of_y.shape[1]}: both must have the same tasks"
        )
    above = (of_x[:, None] > of_y[None]) + 0.5 * (of_x[:, None] == of_y[None])
    return _number(above.mean(axis=(0, 1, 2)))


def stratified_interval(
    statistic: Callable[..., Any], *scores: ArrayLike, repeats: int, seed: int, level: float = 0.95
) -> tuple[Value, Value]:
    """The percentile bootstrap interval of `statistic(*scores)`, stratified by task.

    Each repeat draws, from each array and within each task independently, as many runs as there are, with
    replacement, and computes the statistic of what it drew. The interval has the middle `level` of the results.

    Args:
        statistic: a function of this module, or another, of as many arrays as there are `scores`. It gets several
            draws together, [runs, tasks, draws, ...], and returns their statistics, [draws, ...].
        scores: float [runs, tasks, ...] each.
        repeats: how often to draw.
        seed: of the draws.
        level: the interval's probability, above 0 and below 1.

    Returns:
        The lower and the upper end, each of the shape of the statistic.

    Raises:
        UsageError: an array has a single run, which tells nothing of how much runs differ; or `repeats` or `level` is
            out of range.
    """
    arrays = [_checked(one) for one in scores]
    if any(len(one) < 2 for one in arrays):
        raise UsageError(
            "a single run has no interval: it does not show how much runs differ; give two or more"
        )
    if repeats < 1:
        raise UsageError(f"repeats is {repeats}: it must be at least 1")
    if not 0 < level < 1:
        raise UsageError(f"level is {level}: it must be above 0 and below 1")
    generator = np.random.default_rng(seed)
    most = max(1, _AT_ONCE // max(one.size for one in arrays))
    drawn = [
        statistic(*(_resampled(one, min(most, repeats - done), generator) for one in arrays))
        for done in range(0, repeats, most)
    ]
    low, high = np.quantile(np.concatenate(drawn), ((1 - level) / 2, (1 + level) / 2), axis=0)
    return _number(low), _number(high)


def _resampled(scores: np.ndarray, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Returns draws of as many runs, with replacement, from each task; [runs, tasks, draws, ...]."""
    runs, tasks = scores.shape[:2]
    run_DRT = generator.integers(runs, size=(draws, runs, tasks))
    return np.asarray(scores[np.moveaxis(run_DRT, 0, -1), np.arange(tasks)[:, None]])


def _checked(scores: ArrayLike) -> np.ndarray:
    checked = np.asarray(scores, np.float64)
    if checked.ndim < 2 or checked.size == 0:
        raise UsageError(
            f"scores have the shape {list(checked.shape)}: it must be [runs, tasks], with at least one of each"
        )
    if not np.isfinite(checked).all():
        raise UsageError("a score is not finite: leave out runs without a score")
    return checked


def _number(value: Any) -> Value:
    """A float of what is no array, so that it is shown and written as a number."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)
