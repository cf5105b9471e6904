"""GA3C: predictors and trainers, and the tuner that chooses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veldt.experiments.catalogue.common import ALONE, scores_table
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Surface, learning_curves, number, surfaces
from veldt.experiments.results import FinishedRun, Results, mean_of
from veldt.formatting import counted

_SOURCE = "Babaeizadeh et al. 2017 (GA3C)"
_TUNED = "tuned"
_ONE_RUN = (
    "Each pair is one run; on a shared machine the same pair can differ by 1.6 times between two calls."
)
_PREDICTORS, _TRAINERS = "system/predictors", "system/trainers"
_SMALL_STEPS = 150_000  # of all runs: later steps are faster, because episodes are longer


def _env(request: Request) -> tuple[str, ...]:
    return request.envs("CartPole-v1" if request.is_small else "ALE/Pong-v5")


def _networks(request: Request) -> dict[str, dict[str, Any]]:
    """Returns settings by the name of the network: the recipe's own, and a large one."""
    if request.is_small:
        return {"small network": {}, "large network": {"hidden": (512, 512)}}
    return {"A3C-Net": {}, "DQN-Net": {"network": "dqn"}}


def _fixed(request: Request, env: str, panel: str, network: Mapping[str, Any]) -> list[Training]:
    """Returns a run for each pair of numbers of predictors and trainers."""
    counts = (1, 2, 4) if request.is_small else (1, 2, 4, 8)
    return [
        Training(
            group=f"{counted(predictors, 'predictor', 'predictors')}, {counted(trainers, 'trainer', 'trainers')}",
            recipe="ga3c",
            env=env,
            seed=1,
            settings={
                **ALONE,
                "steps": _SMALL_STEPS if request.is_small else 2_000_000,
                "predictors": predictors,
                "trainers": trainers,
                "tuner_interval": 0.0,
                "num_envs": 16,
                **network,
            },
            panel=panel,
            cores=0,
        )
        for predictors in counts
        for trainers in counts
    ]


def _surface(runs: Sequence[FinishedRun], paths: Mapping[str, Sequence[tuple[float, float]]]) -> Surface:
    """Returns the speed of runs with fixed numbers over these numbers."""
    chosen = {(run.job.settings["trainers"], run.job.settings["predictors"]): run.speed for run in runs}
    trainers, predictors = (sorted({pair[axis] for pair in chosen}) for axis in (0, 1))
    values = [[chosen.get((row, column), np.nan) for column in predictors] for row in trainers]
    return Surface(np.array(values), trainers, predictors, paths)


def _fixed_runs(groups: Mapping[str, Sequence[FinishedRun]]) -> list[FinishedRun]:
    return [run for group, runs in groups.items() if group != _TUNED for run in runs]


def _best_and_worst(chart: str, runs: Sequence[FinishedRun]) -> str:
    best, worst = (choose(runs, key=lambda run: run.speed) for choose in (max, min))
    return f"{chart}: {best.job.group} make {number(best.speed)} steps per second, the slowest {number(worst.speed)}"


def _network(request: Request) -> list[Training]:
    return [
        job
        for env in _env(request)
        for name, network in _networks(request).items()
        for job in _fixed(request, env, f"{env}, {name}", network)
    ]


def _draw_network(results: Results) -> Exhibit:
    by_chart = {chart: _fixed_runs(groups) for chart, groups in results.charts().items()}
    found = "; ".join(_best_and_worst(chart, runs) for chart, runs in by_chart.items())
    says = (
        f"{found or 'No run is done yet'}. {_ONE_RUN} The paper finds the best numbers to depend on the game, the "
        "network and the machine, which is why it tunes them while training."
    )
    drawing = surfaces(
        "Predictors and trainers",
        "Steps per second.",
        {chart: _surface(runs, {}) for chart, runs in by_chart.items()},
        "predictors",
        "trainers",
    )
    return Exhibit(says, [drawing], [scores_table(results)])


GA3C_NETWORK = Experiment(
    name="ga3c-network",
    source=f"{_SOURCE}, section 4",
    shows="Steps per second over numbers of predictors and trainers, with a small and a large network.",
    jobs=_network,
    draw=_draw_network,
    differs=lambda request: [
        f"{', '.join(_env(request))}, with the network computed on this machine's processor."
    ],
    seeds=(1, 1),
    repeats=False,
    hours=0.24,
)


def _tuner(request: Request) -> list[Training]:
    tuned = [
        Training(
            group=_TUNED,
            recipe="ga3c",
            env=env,
            seed=seed,
            settings={
                **ALONE,
                "steps": _SMALL_STEPS if request.is_small else 20_000_000,
                "tuner_interval": 3.0 if request.is_small else 60.0,
                "tuner_most": 4 if request.is_small else 8,
                "num_envs": 16,
            },
            cores=0,
        )
        for env in _env(request)
        for seed in request.seed_range
    ]
    return [*(job for env in _env(request) for job in _fixed(request, env, env, {})), *tuned]


def _draw_tuner(results: Results) -> Exhibit:
    panels, found = {}, []
    for chart, groups in results.charts().items():
        tuned = groups.get(_TUNED, [])
        if fixed := _fixed_runs(groups):
            panels[chart] = _surface(fixed, {f"seed {run.job.seed}": _path(run) for run in tuned})
            found.append(_best_and_worst(chart, fixed))
        if tuned:
            found.append(f"tuned, {number(*mean_of(tuned, lambda run: run.speed))}")
    says = (
        f"{'; '.join(found) or 'No run is done yet'}. {_ONE_RUN} The paper's tuner finds, from any start, numbers near "
        "the best of the surface within minutes."
    )
    drawing = surfaces(
        "The tuner's path",
        "Steps per second with fixed numbers of predictors and trainers, and the numbers that the tuner has tried one "
        "after another (the star is the last).",
        panels,
        "predictors",
        "trainers",
    )
    return Exhibit(says, [drawing, learning_curves(results)], [scores_table(results)])


def _path(run: FinishedRun) -> list[tuple[float, float]]:
    """Returns the numbers of trainers and predictors that a run had, without repetition."""
    path: list[tuple[float, float]] = []
    for row in run.rows:
        if _PREDICTORS in row and path[-1:] != [(row[_TRAINERS], row[_PREDICTORS])]:
            path.append((row[_TRAINERS], row[_PREDICTORS]))
    return path


GA3C_TUNER = Experiment(
    name="ga3c-tuner",
    source=f"{_SOURCE}, section 4.2",
    shows="The path of the tuner on the surface of steps per second over predictors and trainers.",
    jobs=_tuner,
    draw=_draw_tuner,
    differs=lambda request: [
        f"{', '.join(_env(request))}; the tuner measures in shorter intervals at a small scale."
    ],
    seeds=(2, 2),
    hours=0.11,
)
