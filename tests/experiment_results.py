"""Given results of the experiments of the catalogue, without training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Request, Training
from veldt.experiments.figures import Exhibit
from veldt.experiments.results import FinishedRun, Results

AGREES, DOES_NOT, UNSEEN = (
    "agrees with the paper",
    "does not agree with the paper",
    "cannot be seen here because",
)
Value = Callable[[Training], float]


def drawn(
    name: str,
    score: Value,
    *,
    seeds: int = 3,
    scale: Any = "small",
    games: tuple[str, ...] = (),
    recipes: tuple[str, ...] = (),
    seconds: Value = lambda job: 10.0,
    metrics: Callable[[Training], dict[str, float]] = lambda job: {},
    updates: int = 0,
    only: Callable[[Training], bool] = lambda job: True,
) -> Exhibit:
    """The exhibit of all runs, whose episodes of 10 steps begin at 0 and have their score from half of the run on.

    NaN: no episode ends from then on. `updates` are those of each half.
    """
    request, runs = Request(scale, seeds, games, recipes), []
    for job in EXPERIMENTS[name].jobs(request):
        assert isinstance(job, Training)
        if not only(job):
            continue
        run = FinishedRun(job, Path())
        rows = [
            {"step": step, "seconds": seconds(job) * step / 4_000, **metrics(job)}
            | {"train/updates": updates * step // 2_000}
            for step in (2_000, 4_000)
        ]
        returns = np.where(np.arange(400) < 200, 0.0, score(job))
        ended = np.isfinite(returns)
        vars(run).update(
            summary={"steps": 4_000, "seconds": seconds(job)},
            rows=rows,
            layers={},
            episodes=(10.0 * np.arange(1, 401)[ended], returns[ended]),
        )
        runs.append(run)
    return EXPERIMENTS[name].draw(Results(request, runs, [], []))


def seeded(score: float, job: Training) -> float:
    """A score that differs by seed, by a thousandth."""
    return score * (1.0 + 0.001 * job.seed)
