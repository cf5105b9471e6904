"""The score of a trial, at its end and on its way: of its evaluations, or of its episodes where it has none."""

from __future__ import annotations

import math
from pathlib import Path

from veldt.config.train_config import RunConfig
from veldt.experiments.live import last_row
from veldt.formatting import as_float
from veldt.runs.directory import RunDirectory
from veldt.tracking.metrics import read_metrics
from veldt.tuning.study import PARTS

_EVALUATED, _TRAINED = "eval/ep_return_mean", "rollout/ep_return_mean"


class ScoreReader:
    """Reads the scores of trials.

    Args:
        run: the settings that all trials have. With evaluations, the score is the mean return of the newest one;
            without, that of the last 100 episodes of training.
    """

    def __init__(self, run: RunConfig) -> None:
        self._steps = run.steps
        self._metric = _EVALUATED if 0 < run.evaluate_every <= run.steps else _TRAINED

    def share(self, run: Path) -> float:
        """Returns how much of its steps the run in this directory has done, 0 to 1."""
        row = last_row(run) or {}
        return min(as_float(row.get("step", 0)) / self._steps, 1.0)

    def at_ends_of(self, parts: range, run: Path) -> dict[int, float]:
        """Returns the score at the end of each part of the steps, where it had one."""
        rows = [(row["step"], as_float(row.get(self._metric))) for row in read_metrics(run)]
        known = [(step, score) for step, score in rows if math.isfinite(score)]
        scores = {}
        for part in parts:
            before = [score for step, score in known if step <= self._steps * part / PARTS]
            if before:
                scores[part] = before[-1]
        return scores

    def final(self, run: Path) -> float | None:
        """Returns the score of a run that has ended; None if it has none."""
        if self._metric == _TRAINED:
            scores = [as_float((RunDirectory(run).read_summary() or {}).get("ep_return_mean"))]
        else:
            scores = [as_float(row.get(self._metric)) for row in read_metrics(run)]
        known = [score for score in scores if math.isfinite(score)]
        return known[-1] if known else None
