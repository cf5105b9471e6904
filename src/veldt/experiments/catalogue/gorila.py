"""Gorila: learning with more bundles, and the thresholds for stale and outlying gradients."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

from veldt.envs.source import ATARI_PREFIX
from veldt.experiments.catalogue.common import (
    ALONE,
    REPLAY_NOT_KEPT,
    envs_of,
    kept_from_the_smallest,
    line_over_x,
    scores_in_words,
    scores_table,
    seeded,
    small_env_differs,
)
from veldt.experiments.catalogue.verdicts import comparison
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Table, learning_curves, lines, number
from veldt.experiments.results import FinishedRun, Results, mean_of
from veldt.formatting import counted, percent

_LEAST_SHARE = 0.01  # of discarded gradients that is given as a number
_SMALL_STEPS, _PAPER_STEPS = 100_000, 50_000_000
_PAPER_DIFFERS = (
    "One game, and up to 31 bundles instead of 100; of each bundle 8 envs instead of one, and its share of one replay "
    "buffer of a million steps instead of a whole one."
)
_WITHOUT, _WITH = "without thresholds", "stale and outlying gradients discarded"


def _jobs(request: Request) -> list[Training]:
    counts = (1, 2, 4) if request.is_small else (1, 4, 16, 31)
    thresholds: dict[str, dict[str, Any]] = {
        _WITHOUT: {"max_staleness": 0, "outlier_deviations": 0.0},
        _WITH: {"max_staleness": 16, "outlier_deviations": 4.0},
    }
    return [
        job
        for env in envs_of(request, "ALE/Breakout-v5")
        for name, limits in thresholds.items()
        for count in counts
        for job in seeded(
            request,
            group=counted(count, "bundle", "bundles"),
            recipe="gorila",
            env=env,
            settings={
                **ALONE,
                **limits,
                "steps": _SMALL_STEPS if request.is_small else _PAPER_STEPS,
                "learners": count,
                "num_envs": 8 * count,
                **(
                    REPLAY_NOT_KEPT
                    if env.startswith(ATARI_PREFIX)
                    else {"learning_starts": max(2_000, 256 * count)}
                ),
            },
            panel=f"{env}, {name}",
            x=count,
            cores=0,
        )
    ]


def _draw(results: Results) -> Exhibit:
    by_threshold = {
        name: line_over_x(groups, attrgetter("score")) for name, groups in results.charts().items()
    }
    _, verdicts = kept_from_the_smallest(results)
    says = comparison(
        "; ".join(filter(None, [scores_in_words(results), _discarded(results)])),
        "The paper finds Gorila with 100 bundles better than DQN on 41 of 49 games with human starts, after less time "
        "(here: the largest number of bundles keeps nine tenths of the score of one, at equal steps of all bundles); "
        "for stability it discards stale gradients, and those with an unusually high loss, and does not measure what "
        "that changes",
        verdicts,
    )
    drawing = lines(
        "Scores over bundles",
        "Final score at equal steps.",
        {"final score": by_threshold},
        "bundles",
        "final score",
        logarithmic=True,
    )
    rows = [
        (chart, group, *(number(mean_of(runs, share)[0]) for share in (_stale, _outlying)))
        for chart, group, runs in results.groups()
    ]
    header = ("chart", "configuration", "share of stale gradients", "share of outlying ones")
    table = Table("Discarded gradients", header, rows, "Mean over seeds and over rows of metrics.")
    return Exhibit(says, [drawing, learning_curves(results)], [scores_table(results), table])


def _discarded(results: Results) -> str:
    """Returns a phrase with the largest share of gradients that the thresholds have discarded in a run; "" without."""
    shares = [_stale(run) + _outlying(run) for run in results.runs if run.job.settings["max_staleness"]]
    known = list(filter(math.isfinite, shares))
    if not known:
        return ""
    share = "less than 1%" if max(known) < _LEAST_SHARE else f"up to {percent(max(known))}"
    return f"the thresholds discarded {share} of the gradients of each run"


def _stale(run: FinishedRun) -> float:
    return run.metric("system/stale_gradient_share")


def _outlying(run: FinishedRun) -> float:
    return run.metric("system/outlier_gradient_share")


GORILA_SCALING = Experiment(
    name="gorila-scaling",
    source="Nair et al. 2015 (Gorila)",
    shows="Scores at equal steps by the number of bundles, with and without the thresholds of the parameter server.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        *small_env_differs(request, _SMALL_STEPS, "49 Atari games by 100 bundles"),
        *([] if request.is_small else [_PAPER_DIFFERS]),
        "Bundles are compared with one bundle instead of with DQN.",
    ],
    hours=0.14,
    seeds=(2, 2),
)
