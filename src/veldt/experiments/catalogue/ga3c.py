"""GA3C: predictors and trainers, and the tuner that chooses them."""

from __future__ import annotations

import numpy as np

from veldt.experiments.catalogue.common import ALONE, scores_table
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Line, learning_curves, lines, number, surface
from veldt.experiments.results import FinishedRun, Results

_SOURCE = "Babaeizadeh et al. 2017 (GA3C)"
_THREADS = {"system/predictors": "predictors", "system/trainers": "trainers"}
_TUNED = "tuned"


def _env(request: Request) -> tuple[str, ...]:
    return request.envs("CartPole-v1" if request.is_small else "ALE/Pong-v5")


def _network(request: Request) -> list[Training]:
    counts = (1, 2, 4) if request.is_small else (1, 2, 4, 8)
    steps = 30_000 if request.is_small else 2_000_000
    return [
        Training(
            group=f"{predictors} predictors, {trainers} trainers",
            recipe="ga3c",
            env=env,
            seed=1,
            settings={
                **ALONE,
                "steps": steps,
                "predictors": predictors,
                "trainers": trainers,
                "tuner_interval": 0.0,
                "num_envs": 16,
            },
            cores=0,
        )
        for env in _env(request)
        for predictors in counts
        for trainers in counts
    ]


def _draw_network(results: Results) -> Exhibit:
    chosen = [
        (run.job.settings["predictors"], run.job.settings["trainers"], run.speed) for run in results.runs
    ]
    predictors, trainers = (sorted({one[axis] for one in chosen}) for axis in (0, 1))
    values = np.full((len(trainers), len(predictors)), np.nan)
    for p, t, speed in chosen:
        values[trainers.index(t), predictors.index(p)] = speed
    best = max(chosen, key=lambda one: one[2], default=(0, 0, 0.0))
    says = (
        f"The fastest here is {best[0]} predictors and {best[1]} trainers with {number(best[2])} steps per second, the "
        f"slowest has {number(min((one[2] for one in chosen), default=0.0))}. The paper finds the best numbers to "
        "depend on the game and the machine, which is why it tunes them while training."
    )
    drawing = surface(
        "Predictors and trainers", "Steps per second.", values, trainers, predictors, "predictors", "trainers"
    )
    return Exhibit(says, [drawing], [scores_table(results)])


GA3C_NETWORK = Experiment(
    name="ga3c-network",
    source=f"{_SOURCE}, section 4",
    shows="Steps per second over numbers of predictors and trainers.",
    jobs=_network,
    draw=_draw_network,
    differs=lambda request: [
        f"{', '.join(_env(request))}, with the network computed on this machine's processor.",
        "One network size; --games names other environments.",
    ],
    seeds=(1, 1),
    hours=0.063,
    repeats=False,
)


def _tuner(request: Request) -> list[Training]:
    return [
        Training(
            group=_TUNED if interval else "as it starts",
            recipe="ga3c",
            env=env,
            seed=seed,
            settings={
                **ALONE,
                "steps": 150_000 if request.is_small else 20_000_000,
                "tuner_interval": interval,
                "num_envs": 16,
                **({"tuner_most": 4} if interval else {}),
            },
            cores=0,
        )
        for env in _env(request)
        for interval in (0.0, 3.0 if request.is_small else 60.0)
        for seed in request.seed_range
    ]


def _draw_tuner(results: Results) -> Exhibit:
    speeds = [
        f"{group}: {number(float(np.mean([run.speed for run in runs])))}"
        for _, group, runs in results.groups()
    ]
    says = (
        f"Steps per second: {'; '.join(speeds)}. The paper's tuner finds, from any start, numbers near the best of the "
        "surface within minutes."
    )
    paths = {
        f"{chart}, seed {run.job.seed}": {label: _path(run, name) for name, label in _THREADS.items()}
        for chart, group, runs in results.groups()
        for run in runs
        if group == _TUNED
    }
    drawing = lines("The tuner's path", "Threads that the tuner chose.", paths, "agent steps", "threads")
    return Exhibit(says, [drawing, learning_curves(results)], [scores_table(results)])


def _path(run: FinishedRun, name: str) -> Line:
    rows = [row for row in run.rows if name in row]
    return Line([row["step"] for row in rows], [row[name] for row in rows])


GA3C_TUNER = Experiment(
    name="ga3c-tuner",
    source=f"{_SOURCE}, section 4.2",
    shows="Speed and scores with the tuner of predictors and trainers against fixed numbers.",
    jobs=_tuner,
    draw=_draw_tuner,
    differs=lambda request: [
        f"{', '.join(_env(request))}; the tuner measures in shorter intervals at a small scale."
    ],
    seeds=(2, 2),
)
