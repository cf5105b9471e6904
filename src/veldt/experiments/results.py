"""The results of an experiment's jobs: runs with their episodes and rows of metrics, and measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from veldt.errors import UsageError
from veldt.experiments.experiment import Evaluation, Measurement, Request, Training
from veldt.experiments.speed import speed_while_learning
from veldt.formatting import as_float
from veldt.report import statistics
from veldt.report.finished_episodes import first_highest, first_reached
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import read_episodes
from veldt.tracking.metrics import read_metrics

_TAIL = 0.1  # of a run's steps: its last episodes are its final score
_BINS = 40
_REPEATS = 1_000


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended, with the job that it was for."""

    job: Training
    path: Path

    @cached_property
    def summary(self) -> dict[str, Any]:
        return RunDirectory(self.path).read_summary() or {}

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of config.json; {} if it cannot be read."""
        try:
            return RunDirectory(self.path).read_config()
        except UsageError:
            return {}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of metrics, without damaged ones: each has a finite `step` and finite `seconds`."""
        rows = read_metrics(self.path)
        return [
            row for row in rows if all(np.isfinite(as_float(row.get(key))) for key in ("step", "seconds"))
        ]

    @cached_property
    def layers(self) -> dict[str, int]:
        """The dimensions of the weights of the network's layers by name, in its order: 2 of a linear layer, else more.

        Those of normalisation have one, and are left out.
        """
        from veldt.api.playing import load  # it imports torch

        named = load(self.path).network.named_parameters()
        return {name: weight.ndim for name, weight in named if name.endswith("weight") and weight.ndim > 1}

    @cached_property
    def episodes(self) -> tuple[np.ndarray, np.ndarray]:
        """The step at the end of each episode that counts, and its finite raw return, in the order of steps.

        float64 [E] each.
        """
        counted = [(one.step, one.score) for one in read_episodes(self.path) if one.counts]
        pairs = np.array(counted, np.float64).reshape(-1, 2)
        pairs = pairs[np.isfinite(pairs[:, 1])]
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        return pairs[:, 0], pairs[:, 1]

    @property
    def steps(self) -> int:
        steps = as_float(self.summary.get("steps"))
        return int(steps) if np.isfinite(steps) else 0

    @property
    def seconds(self) -> float:
        """Seconds of training; 0 if unknown."""
        seconds = as_float(self.summary.get("seconds"))
        return seconds if np.isfinite(seconds) else 0.0

    @property
    def speed(self) -> float:
        """Agent steps per second from the first update on, without the start; of the whole run if it is too short."""
        learning = speed_while_learning(self.rows)
        return learning.steps_per_second if learning else self.steps / max(self.seconds, 1e-9)

    @property
    def score(self) -> float:
        """The mean raw return of the episodes that ended in the last tenth of the steps; NaN if there are none."""
        steps_E, scores_E = self.episodes
        last = scores_E[steps_E >= (1.0 - _TAIL) * self.steps]
        return float(last.mean()) if len(last) else float("nan")

    @property
    def evaluation(self) -> float:
        """The mean raw return of the run's last evaluation; NaN if it has none."""
        return self.last("eval/ep_return_mean")

    def metric(self, name: str) -> float:
        """Returns the mean of a metric over the rows that have it; NaN if none has it."""
        values = [value for row in self.rows if np.isfinite(value := as_float(row.get(name)))]
        return float(np.mean(values)) if values else float("nan")

    def last(self, name: str) -> float:
        """Returns a metric of the last row that has it; NaN if none has."""
        _, values = self.metric_curve(name)
        return float(values[-1]) if len(values) else float("nan")

    def metric_curve(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns (step [K], value [K]) of the rows that have a metric."""
        pairs = [(row["step"], value) for row in self.rows if np.isfinite(value := as_float(row.get(name)))]
        points = np.array(pairs, np.float64).reshape(-1, 2)
        return points[:, 0], points[:, 1]

    def steps_to(self, score: float) -> float:
        """Returns the step at which the mean return of 100 episodes was first at least `score`; NaN if it never was."""
        reached = first_reached(*self.episodes, score)
        return float("nan") if reached is None else reached

    def peak(self) -> float:
        """Returns the step at which the mean return of 100 episodes was first highest; NaN with fewer episodes."""
        highest = first_highest(*self.episodes)
        return float("nan") if highest is None else highest

    def seconds_at(self, step: float | np.ndarray) -> Any:
        """Returns the seconds of training at which the run was at `step`."""
        known = [(row["step"], row["seconds"]) for row in self.rows]
        steps, seconds = zip(*known, strict=True) if known else ((0.0,), (0.0,))
        return np.interp(step, (0.0, *steps), (0.0, *seconds))

    def curve(self, bins: int = _BINS) -> tuple[np.ndarray, np.ndarray]:
        """Returns (step [K], mean return [K]) over equal parts of the run's steps in which episodes ended."""
        steps_E, scores_E = self.episodes
        edges = np.linspace(0.0, max(self.steps, 1), bins + 1)
        part_E = np.clip(np.searchsorted(edges, steps_E) - 1, 0, bins - 1)
        counts = np.bincount(part_E, minlength=bins)
        sums = np.bincount(part_E, scores_E, minlength=bins)
        filled = counts > 0
        return edges[1:][filled], sums[filled] / counts[filled]


@dataclass(frozen=True)
class Measured:
    """The JSON object that a measurement has printed."""

    job: Measurement
    values: dict[str, Any]


@dataclass(frozen=True)
class Evaluated:
    """The JSON object that the evaluation of a run from recorded starts has printed."""

    job: Evaluation
    values: dict[str, Any]

    @property
    def score(self) -> float:
        """The mean raw return after the starts; NaN if it is not there."""
        return as_float(self.values.get("ep_return_mean"))


@dataclass(frozen=True)
class Results:
    """All results that there are of an experiment; `missing` names the jobs that have none."""

    request: Request
    runs: Sequence[FinishedRun]
    measured: Sequence[Measured]
    missing: Sequence[str]
    evaluated: Sequence[Evaluated] = ()

    def records(self) -> list[dict[str, Any]]:
        """Returns what each run and each measurement says of itself, with its hardware and versions.

        An evaluation says nothing of that.
        """
        return [*(run.record for run in self.runs), *(one.values for one in self.measured)]

    def charts(self) -> dict[str, dict[str, list[FinishedRun]]]:
        """Returns the runs by chart and by group, in the order of the jobs."""
        charts: dict[str, dict[str, list[FinishedRun]]] = {}
        for run in self.runs:
            charts.setdefault(run.job.chart, {}).setdefault(run.job.group, []).append(run)
        return charts

    def from_starts(self) -> dict[tuple[str, str], list[Evaluated]]:
        """Returns the evaluations from recorded starts by (chart, group), in the order of the jobs."""
        found: dict[tuple[str, str], list[Evaluated]] = {}
        for one in self.evaluated:
            found.setdefault((one.job.chart, one.job.group), []).append(one)
        return found

    def groups(self) -> Iterator[tuple[str, str, list[FinishedRun]]]:
        """Yields (chart, group, runs)."""
        for chart, groups in self.charts().items():
            for group, runs in groups.items():
                yield chart, group, runs


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns the mean of values and its 95% bootstrap interval; a single value has no interval (NaN)."""
    known_N1 = np.array([value for value in values if np.isfinite(value)])[:, None]
    if len(known_N1) < 2:
        return float(known_N1.mean()) if len(known_N1) else float("nan"), float("nan"), float("nan")
    low, high = statistics.stratified_interval(statistics.mean, known_N1, repeats=_REPEATS, seed=0)
    return float(known_N1.mean()), float(low), float(high)


def mean_of(runs: Sequence[FinishedRun], value: Callable[[FinishedRun], float]) -> tuple[float, float, float]:
    """Returns the mean over runs of a value, and its 95% bootstrap interval."""
    return interval([value(run) for run in runs])


def mean_curve(
    runs: Sequence[FinishedRun], horizontal: Callable[[FinishedRun, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns (x, mean, low, high), [K] each, of the runs' curves where all have one; `horizontal` maps steps to x."""
    curves = [run.curve() for run in runs]
    return mean_line(
        [(horizontal(run, steps), scores) for run, (steps, scores) in zip(runs, curves, strict=True)]
    )


def mean_line(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns (x, mean, low, high), [K] each, of curves (x, y), without empty ones, where all have a point."""
    known = [(x, y) for x, y in curves if len(x)]
    start, end = max((x[0] for x, _ in known), default=0.0), min((x[-1] for x, _ in known), default=-1.0)
    if end < start:
        return tuple(np.empty((4, 0)))  # type: ignore[return-value]
    grid = np.linspace(start, end, _BINS)
    values = np.stack([np.interp(grid, x, y) for x, y in known])
    low = high = np.full(_BINS, np.nan)  # a single curve has no interval
    if len(values) > 1:
        ends = statistics.stratified_interval(statistics.mean, values[:, None], repeats=_REPEATS, seed=0)
        low, high = map(np.asarray, ends)
    return grid, values.mean(axis=0), low, high
