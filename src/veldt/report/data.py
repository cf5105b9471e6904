"""The data of a run for a report, read from its directory; values missing in running and killed runs stay unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veldt.formatting import as_float
from veldt.report.charts import Curve
from veldt.report.finished_episodes import EpisodeHistory, mean_of_last
from veldt.report.status import RunStatus, status_of
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import WINDOW
from veldt.tracking.metrics import read_metrics
from veldt.tracking.stage_clock import STAGES

_POINTS = 400
_STAGE = re.compile(r"time/(\w+)_seconds")


@dataclass(frozen=True)
class RunData:
    """One run: settings, final metrics (empty unless it stopped properly), rows, episodes, events, and whether it
    trains now.
    """

    path: Path
    name: str
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    episodes: EpisodeHistory
    events: list[dict[str, Any]]
    running: bool

    @classmethod
    def load(cls, path: Path) -> RunData:
        """Reads the run in `path`. Raises UsageError if it is no run."""
        run = RunDirectory.open(path)
        rows, running, summary = read_metrics(run.path), run.is_locked(), run.read_summary()
        if summary is not None and (running or _goes_beyond(rows, summary)):
            summary = None  # it was written before the run was resumed
        name = run.path.resolve().name
        episodes = EpisodeHistory.load(run.path)
        return cls(
            run.path, name, run.read_config(), summary or {}, rows, episodes, run.read_events(), running
        )

    @property
    def status(self) -> RunStatus:
        """The status of the run."""
        reason = str(self.summary.get("reason") or "") if self.summary else None
        target = as_float(self.settings().get("run.steps"))
        return status_of(self.running, reason, self.metric("steps", "step"), target)

    def setting(self, key: str) -> str:
        """Returns `recipe`, `env`, `seed` or another setting as text, "" if unknown."""
        resolved = self.config["resolved"]
        for source in (self.summary, resolved, resolved.get("run")):
            value = source.get(key) if isinstance(source, dict) else None
            if value is not None:
                return str(value)
        return ""

    def metric(self, *keys: str) -> float:
        """Returns the first known one of `keys`, from the summary, else from the latest row with one; NaN if none."""
        for source in (self.summary, *reversed(self.rows)):
            for key in keys:
                number = as_float(source.get(key))
                if np.isfinite(number):
                    return number
        return float("nan")

    def curve(self, x_key: str, y_key: str) -> Curve:
        """(x, y), float64 [points] each, of rows where both are finite; averaged down to a few hundred points."""
        return _thinned(*self._rows_of(x_key, y_key))

    def mean_returns(self) -> Curve:
        """Mean return of the last 100 episodes over agent steps, as `curve`: from the log of episodes.

        The log of a running or killed run may end before its rows: their means follow.
        """
        return self._continued(self.episodes.score, "rollout/ep_return_mean")

    def mean_lengths(self) -> Curve:
        """Mean length of the last 100 episodes, as `mean_returns`."""
        return self._continued(self.episodes.length, "rollout/interval_length_mean")

    def single_returns(self) -> Curve:
        """Return of each episode over agent steps; of each interval, if the run has no log of episodes."""
        if len(self.episodes.step):
            return _thinned(self.episodes.step, self.episodes.score)
        return self.curve("step", "rollout/interval_return_mean")

    def seconds_at(self, steps: np.ndarray) -> np.ndarray:
        """Seconds spent training when the run had made these agent steps: linear between rows; float64 [steps]."""
        known = [(0.0, 0.0), *zip(*self._rows_of("step", "seconds"), strict=True)]
        end = (as_float(self.summary.get("steps")), as_float(self.summary.get("seconds")))
        x, y = np.array([*known, *([end] if np.isfinite(end).all() else [])]).T
        x, first = np.unique(x, return_index=True)
        return np.interp(steps, x, y[first])

    def steps_to(self, score: float) -> float | None:
        """The agent steps at which the mean return of the last 100 episodes was first at least `score`; None: never.

        As with `--until`, 100 episodes must have finished.
        """
        steps = self.episodes.first_reached(score)
        if steps is not None:
            return steps
        # The log of a running or killed run may end before its rows.
        reached = (
            as_float(row.get("step"))
            for row in self.rows
            if as_float(row.get("rollout/ep_return_mean")) >= score
            and as_float(row.get("rollout/episodes")) >= WINDOW
        )
        return next((step for step in reached if np.isfinite(step)), None)

    def _continued(self, values: np.ndarray, key: str) -> Curve:
        """The mean of the last 100 `values` of the episodes; beyond the log's end, the metric `key` of the rows."""
        x, y = self._rows_of("step", key)
        steps = self.episodes.step
        later = x > steps[-1] if len(steps) else x >= 0
        x, y = np.concatenate((steps, x[later])), np.concatenate((mean_of_last(values), y[later]))
        # Episodes that one rollout brings have the same step: the last of them has the mean after it.
        last = np.append(x[1:] > x[:-1], True)[: len(x)]
        return _thinned(x[last & np.isfinite(y)], y[last & np.isfinite(y)])

    def _rows_of(self, x_key: str, y_key: str) -> Curve:
        pairs = np.array([(as_float(row.get(x_key)), as_float(row.get(y_key))) for row in self.rows]).reshape(
            -1, 2
        )
        pairs = pairs[np.isfinite(pairs).all(axis=1)]
        return pairs[:, 0], pairs[:, 1]

    def metric_names(self) -> list[str]:
        """The keys of all rows, in order of first appearance."""
        return list(dict.fromkeys(key for row in self.rows for key in row))

    def stage_seconds(self) -> dict[str, float]:
        """Seconds per stage, known stages first; summed over the rows if there is no summary yet."""
        seconds: dict[str, float] = {}
        if isinstance(final := self.summary.get("seconds_per_stage"), dict):
            seconds = {stage: as_float(value) for stage, value in final.items()}
        else:
            for row in self.rows:
                for key, value in row.items():
                    if (found := _STAGE.fullmatch(key)) and np.isfinite(as_float(value)):
                        seconds[found[1]] = seconds.get(found[1], 0.0) + as_float(value)
        known = [stage for stage in STAGES if stage in seconds]
        ordered = [*known, *(stage for stage in seconds if stage not in STAGES)]
        return {stage: seconds[stage] for stage in ordered if seconds[stage] > 0}

    def actor_shares(self) -> dict[str, float]:
        """Shares of the actors' time per stage; empty if there are no actors."""
        shares = {stage: self.metric(f"time/actor_{stage}_share") for stage in STAGES}
        return {stage: share for stage, share in shares.items() if share > 0}

    def settings(self) -> dict[str, Any]:
        """The resolved settings, nested ones with dotted names."""
        return _flat(self.config.get("resolved"), "")

    def given(self) -> dict[str, Any]:
        """The settings that the user gave (not those of the recipe), with dotted names."""
        return _flat(self.config.get("given"), "")


def on_common_grid(curves: list[Curve]) -> Curve:
    """(x [points], y [curves, points]) of several curves, over the range of x that all of them cover; empty if none."""
    nothing = np.empty(0), np.empty((len(curves), 0))
    if any(len(x) == 0 for x, _ in curves):
        return nothing
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if end <= start:
        return nothing
    grid = np.linspace(start, end, _POINTS // 2)
    return grid, np.stack([np.interp(grid, x, y) for x, y in curves])


def smoothed(y: np.ndarray) -> np.ndarray:
    """Smooths `y`: a moving median removes spikes, then a moving mean removes the median's steps."""
    half = len(y) // 60
    if half == 0:
        return y
    for average in (np.median, np.mean):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(y, half, mode="reflect"), 2 * half + 1)
        y = np.asarray(average(windows, axis=1))
    return y


def _thinned(x: np.ndarray, y: np.ndarray) -> Curve:
    if len(x) <= _POINTS:
        return x, y
    x, y = (np.array([part.mean() for part in np.array_split(values, _POINTS)]) for values in (x, y))
    return x, y


def _goes_beyond(rows: list[dict[str, Any]], summary: dict[str, Any]) -> bool:
    return any(as_float(row.get("step")) > as_float(summary.get("steps")) for row in rows[-1:])


def _flat(value: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value} if prefix else {}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}.{key}" if prefix else str(key))
    return flat
