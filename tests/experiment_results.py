"""Given results of the experiments of the catalogue, without training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from veldt.evaluation.starts import Start, Starts
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Evaluation, Request, Training
from veldt.experiments.figures import Exhibit
from veldt.experiments.recorded_starts import RecordedStarts
from veldt.experiments.results import Evaluated, FinishedRun, Results

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
    starts: tuple[RecordedStarts, ...] = (),
    from_starts: Value = lambda job: float("nan"),
) -> Exhibit:
    """The exhibit of all runs, whose episodes of 10 steps begin at 0 and have their score from half of the run on.

    NaN: no episode ends from then on. `updates` are those of each half.
    """
    request, runs = Request(scale, seeds, games, recipes, starts), []
    evaluated: list[Evaluated] = []
    for job in EXPERIMENTS[name].jobs(request):
        if isinstance(job, Evaluation):
            if only(job.of):
                evaluated.append(Evaluated(job, {"ep_return_mean": from_starts(job.of)}))
            continue
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
    return EXPERIMENTS[name].draw(Results(request, runs, [], [], evaluated))


def seeded(score: float, job: Training) -> float:
    """A score that differs by seed, by a thousandth."""
    return score * (1.0 + 0.001 * job.seed)


def recorded(
    env: str,
    by: str = "person",
    number: int = 2,
    path: Path = Path("starts.safetensors"),
    action: int = 0,
    **atari: Any,
) -> Starts:
    """Starts of an Atari game, 5 steps into its episodes; nothing was played."""
    atari = {"frame_skip": 4, "sticky_actions": 0.0, "full_action_space": False, "no_ops": 30, **atari}
    each = tuple(Start(seed, np.full(5, action), f"digest {seed}") for seed in range(number))
    made = {"by": by} if by else {}
    return Starts(path=path, env=env, env_kwargs={}, atari=atari, made=made, versions={}, each=each)
