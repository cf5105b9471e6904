"""The score of a trial, at its end and on its way: of its evaluations, or of its episodes where it has none."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veldt.config.train_config import RunConfig
from veldt.formatting import as_float
from veldt.runs import strict_json
from veldt.runs.directory import RunDirectory
from veldt.runs.files import open_to_read
from veldt.runs.own_names import METRICS
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

    def watch(self, run: Path) -> ScoreWatch:
        """Returns what follows the run in this directory on its way."""
        return ScoreWatch(run / METRICS, self._metric, self._steps)

    def final(self, run: Path) -> float | None:
        """Returns the score of a run that has ended; None if it has none."""
        if self._metric == _TRAINED:
            scores = [as_float((RunDirectory(run).read_summary() or {}).get("ep_return_mean"))]
        else:
            scores = [as_float(row.get(self._metric)) for row in read_metrics(run)]
        known = [score for score in scores if math.isfinite(score)]
        return known[-1] if known else None


class ScoreWatch:
    """Follows a run by its metrics, and reads each row once.

    `share` is how much of its steps the run has done, 0 to 1, `part` how many parts of them, and `score` its newest
    score, or None.
    """

    def __init__(self, path: Path, metric: str, steps: int) -> None:
        self._path, self._metric, self._steps = path, metric, steps
        self._inode, self._position = 0, 0
        self.share, self.part = 0.0, 0
        self.score: float | None = None

    def new_scores(self) -> dict[int, float]:
        """Reads the new rows; returns the score at the end of each part that has passed, where it had one."""
        scores: dict[int, float] = {}
        for row in self._new_rows():
            step, score = as_float(row.get("step", 0)), as_float(row.get(self._metric))
            ended = step * PARTS / self._steps
            scores |= self._passed(math.ceil(ended) - 1)  # before this row
            if math.isfinite(score):
                self.score = score
            scores |= self._passed(int(ended))
            self.share = min(step / self._steps, 1.0)
        return scores

    def _passed(self, part: int) -> dict[int, float]:
        """Returns the newest score for each further part up to this one."""
        before, self.part = self.part, max(self.part, min(part, PARTS))
        return {} if self.score is None else dict.fromkeys(range(before + 1, self.part + 1), self.score)

    def _new_rows(self) -> Iterator[dict[str, Any]]:
        try:
            with open_to_read(self._path) as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode != self._inode:  # first opened now, or replaced by a file without the removed rows
                    self._inode, self._position = inode, 0
                file.seek(self._position)
                lines, ending, _ = file.read().rpartition(b"\n")
        except OSError:
            return
        self._position += len(lines) + len(ending)
        for line in lines.splitlines():
            with contextlib.suppress(ValueError):
                row = strict_json.loads(line)
                if isinstance(row, dict):
                    yield row
