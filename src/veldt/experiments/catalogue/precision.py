"""Reduced precision, an open question of Stooke & Abbeel (section 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veldt.experiments.catalogue.common import ALONE, STOOKE, envs_of, scores_table, seeded, small_env_differs
from veldt.experiments.catalogue.verdicts import (
    Estimate,
    all_of,
    at_least,
    comparison,
    keeps,
    over_games,
    ratio,
)
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Table, learning_curves
from veldt.experiments.results import Results
from veldt.report import statistics

_SMALL_STEPS, _PAPER_STEPS = 100_000, 25_000_000


def _jobs(request: Request) -> list[Training]:
    steps = _SMALL_STEPS if request.is_small else _PAPER_STEPS
    return [
        job
        for env in envs_of(request, "ALE/Breakout-v5")
        for precision in ("fp32", "bf16")
        for job in seeded(
            request,
            group=precision,
            recipe="ppo",
            env=env,
            settings={**ALONE, "steps": steps, "precision": precision},
        )
    ]


def _draw(results: Results) -> Exhibit:
    here, rows, verdicts = [], [], {}
    for chart, groups in results.charts().items():
        full, half = ({run.job.seed: run for run in groups.get(name, [])} for name in ("fp32", "bf16"))
        pairs = [(full[seed], half[seed]) for seed in sorted(full.keys() & half.keys())]
        scores = [
            (one.score, other.score)
            for one, other in pairs
            if np.isfinite(one.score) and np.isfinite(other.score)
        ]
        before, after = [one for one, _ in scores], [other for _, other in scores]
        iqm, faster = _difference(before, after), ratio([two.speed / one.speed for one, two in pairs])
        here.append(
            f"{chart}: bf16 minus fp32 is {iqm} in the interquartile mean of scores, and bf16 is {faster} times as fast"
        )
        rows.append((chart, str(len(pairs)), f"{iqm}", f"{faster}"))
        verdicts[chart] = all_of([at_least(faster, 1.0), keeps(after, before, paired=True)])
    says = comparison(
        "; ".join(here),
        "The paper measures no reduced precision, and says that it could hasten learning (here: more steps per "
        "second, and nine tenths of the score)",
        verdicts,
    )
    header = ("env", "seeds in common", "IQM of bf16 minus that of fp32", "speed of bf16 over that of fp32")
    caption = (
        "The difference with its 95% bootstrap interval, made wider for few seeds; the speed with Student's."
    )
    table = Table("bf16 against fp32", header, rows, caption)
    return Exhibit(says, [learning_curves(results)], [table, scores_table(results)])


def _difference(full: Sequence[float], half: Sequence[float]) -> Estimate:
    """Returns the difference of the interquartile means of scores."""
    if not full:
        return Estimate(float("nan"))

    def difference(half: np.ndarray, full: np.ndarray) -> statistics.Value:
        return statistics.interquartile_mean(half) - statistics.interquartile_mean(full)

    return over_games(difference, *(np.array(scores)[:, None] for scores in (half, full)))


PRECISION = Experiment(
    name="precision",
    source=f"{STOOKE}, section 6 (an open question)",
    shows="PPO with the torso in bf16 against fp32, on the same seeds.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: (
        small_env_differs(request, _SMALL_STEPS, "Atari games")
        if request.is_small
        else [
            "The paper has no such runs: they are of the recipe ppo, over the paper's steps of policy gradients."
        ]
    ),
    seeds=(5, 5),
    hours=0.015,
)
