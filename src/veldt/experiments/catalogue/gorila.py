"""Gorila: learning with more bundles, and the thresholds for stale and outlying gradients."""

from __future__ import annotations

from typing import Any

from veldt.experiments.catalogue.common import (
    ALONE,
    SMALL_ENV,
    line_over_x,
    scores_in_words,
    scores_table,
    small_env_differs,
)
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, learning_curves, lines
from veldt.experiments.results import Results

_SMALL_STEPS, _PAPER_STEPS = 100_000, 50_000_000


def _jobs(request: Request) -> list[Training]:
    counts = (1, 2, 4) if request.is_small else (1, 4, 16, 31)
    thresholds: dict[str, dict[str, Any]] = {
        "without thresholds": {"max_staleness": 0, "outlier_deviations": 0.0},
        "stale and outlying gradients discarded": {"max_staleness": 16, "outlier_deviations": 4.0},
    }
    return [
        Training(
            group=f"{count} bundles",
            recipe="gorila",
            env=env,
            seed=seed,
            settings={
                **ALONE,
                **limits,
                "steps": _SMALL_STEPS if request.is_small else _PAPER_STEPS,
                "learners": count,
                "num_envs": 8 * count,
                **({} if env.startswith("ALE/") else {"learning_starts": max(2_000, 256 * count)}),
            },
            panel=f"{env}, {name}",
            x=count,
            cores=0,
        )
        for env in request.envs(SMALL_ENV if request.is_small else "ALE/Breakout-v5")
        for name, limits in thresholds.items()
        for count in counts
        for seed in request.seed_range
    ]


def _draw(results: Results) -> Exhibit:
    by_threshold = {
        name: line_over_x(groups, lambda run: run.score) for name, groups in results.charts().items()
    }
    says = (
        f"Final scores: {scores_in_words(results)}. Gorila discards stale gradients, and those with an unusual loss, "
        "for stability with a hundred learners; with few, hardly any gradient is stale."
    )
    drawing = lines(
        "Scores over bundles",
        "Final score at equal steps.",
        {"final score": by_threshold},
        "bundles",
        "final score",
        logarithmic=True,
    )
    return Exhibit(says, [drawing, learning_curves(results)], [scores_table(results)])


GORILA_SCALING = Experiment(
    name="gorila-scaling",
    source="Nair et al. 2015 (Gorila)",
    shows="Scores at equal steps by the number of bundles, with and without the thresholds of the parameter server.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: small_env_differs(request, _SMALL_STEPS, "49 Atari games by 100 bundles"),
    hours=0.14,
    seeds=(2, 2),
)
