"""GA3C: predictors and trainers, and the tuner that chooses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veldt.experiments.catalogue.common import ALONE, envs_of, scores_table, seeded
from veldt.experiments.catalogue.verdicts import NOTHING, Verdict, at_least, comparison, mean
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Surface, learning_curves, number, surfaces
from veldt.experiments.results import FinishedRun, Results
from veldt.formatting import counted

_SOURCE = "Babaeizadeh et al. 2017 (GA3C)"
_TUNED = "tuned"
_NOISE = 1.6  # the speeds of two runs with the same numbers differ by up to as many times on a shared machine
_ONE_RUN = (
    f"Each pair is one run; on a shared machine the same pair can differ by {_NOISE} times between two runs"
)
_PREDICTORS, _TRAINERS = "system/predictors", "system/trainers"
_SMALL_STEPS = 150_000  # of all runs: later steps are faster, because episodes are longer


def _envs(request: Request) -> tuple[str, ...]:
    return envs_of(request, "ALE/Pong-v5")


def _num_envs(request: Request) -> int:
    return 16 if request.is_small else 32  # the agents of GA3C's figure of the tuner


def _networks(request: Request) -> dict[str, dict[str, Any]]:
    """Returns settings by the name of the network: the recipe's own, and a large one."""
    if request.is_small:
        return {"small network": {}, "large network": {"hidden": (512, 512)}}
    return {"A3C-Net": {}, "DQN-Net": {"network": "dqn"}}


def _devices() -> dict[str, dict[str, Any]]:
    """Returns settings by what a chart's title has of the device: where there is a GPU, of a chart for each device."""
    return {"": {"device": "cpu"}, ", on the GPU": {"device": "cuda"}} if _sees_gpu() else {"": {}}


def _sees_gpu() -> bool:
    from veldt.runtime.devices import choose_device  # it imports torch

    return choose_device("auto").type == "cuda"


def _where(request: Request) -> str:
    """Returns the environments, and what computes the network; the same on all machines."""
    device = "this machine's processor, and in charts of its own on its GPU where torch sees one"
    return f"{', '.join(_envs(request))}, with the network computed on {device}"


def _fixed(request: Request, env: str, panel: str, settings: Mapping[str, Any]) -> list[Training]:
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
                "num_envs": _num_envs(request),
                **settings,
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


def _best(runs: Sequence[FinishedRun]) -> FinishedRun:
    return max(runs, key=lambda run: run.speed)


def _best_and_worst(chart: str, runs: Sequence[FinishedRun]) -> str:
    best, worst = _best(runs), min(runs, key=lambda run: run.speed)
    fast, slow = number(best.speed), number(worst.speed)
    return f"{chart}: the fastest pair ({best.job.group}) makes {fast} steps per second, the slowest {slow}"


def _network(request: Request) -> list[Training]:
    return [
        job
        for env in _envs(request)
        for name, network in _networks(request).items()
        for device, setting in _devices().items()
        for job in _fixed(request, env, f"{env}, {name}{device}", network | setting)
    ]


def _differ(surfaces_runs: Sequence[Sequence[FinishedRun]]) -> Verdict:
    """Whether the best numbers of one surface are worse on another by more than two runs of the same numbers differ."""
    losses = []
    for runs in surfaces_runs:
        speeds = {run.job.group: run.speed for run in runs}
        losses += [
            max(speeds.values()) / speeds[best]
            for others in surfaces_runs
            if others is not runs and (best := _best(others).job.group) in speeds
        ]
    if not losses:
        return Verdict(None, NOTHING)
    if max(losses) > _NOISE:
        return Verdict(True)
    return Verdict(
        None, f"the best numbers differ by no more than two runs of the same ({max(losses):.2f} times)"
    )


def _draw_network(results: Results) -> Exhibit:
    by_chart = {chart: _fixed_runs(groups) for chart, groups in results.charts().items()}
    found = "; ".join(_best_and_worst(chart, runs) for chart, runs in by_chart.items())
    says = comparison(
        f"{found}. {_ONE_RUN}" if found else "",
        "The paper finds the best numbers to depend on the environment, the size of the network and the machine (here: "
        f"a chart's own best numbers are more than {_NOISE} times as fast as those that are best on another)",
        {"": _differ(list(by_chart.values()))},
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
    source=f"{_SOURCE}, the numbers of predictors and trainers",
    shows="Steps per second over numbers of predictors and trainers, with a small and a large network.",
    jobs=_network,
    draw=_draw_network,
    differs=lambda request: [f"{_where(request)}."],
    seeds=(1, 1),
    repeats=False,
    hours=0.24,
)


def _tuner(request: Request) -> list[Training]:
    charts = [
        (env, f"{env}{device}", setting) for env in _envs(request) for device, setting in _devices().items()
    ]
    fixed = [job for env, panel, setting in charts for job in _fixed(request, env, panel, setting)]
    tuned = [
        job
        for env, panel, setting in charts
        for job in seeded(
            request,
            group=_TUNED,
            recipe="ga3c",
            env=env,
            settings={
                **ALONE,
                "steps": _SMALL_STEPS if request.is_small else 20_000_000,
                "tuner_interval": 3.0 if request.is_small else 60.0,
                "tuner_most": 4 if request.is_small else 8,
                "num_envs": _num_envs(request),
                **setting,
            },
            panel=panel,
            cores=0,
        )
    ]
    return [*fixed, *tuned]


def _draw_tuner(results: Results) -> Exhibit:
    panels, found, verdicts = {}, [], {}
    for chart, groups in results.charts().items():
        tuned, fixed = groups.get(_TUNED, []), _fixed_runs(groups)
        speed = mean([run.speed for run in tuned])
        if fixed:
            panels[chart] = _surface(fixed, {f"seed {run.job.seed}": _path(run) for run in tuned})
            found.append(_best_and_worst(chart, fixed))
        if tuned:
            found.append(f"the runs with the tuner make {speed} on {chart}")
        best = _best(fixed).speed if fixed else float("nan")
        verdicts[chart] = at_least(speed, 0.9 * best) if fixed else Verdict(None, NOTHING)
    says = comparison(
        f"{'; '.join(found)}. {_ONE_RUN}" if found else "",
        "The paper's tuner starts from one predictor and one trainer, and their numbers converge towards the best ones "
        "while the speed increases (here: to nine tenths of that with the best fixed numbers)",
        verdicts,
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
    source=f"{_SOURCE}, the tuner",
    shows="The path of the tuner on the surface of steps per second over predictors and trainers.",
    jobs=_tuner,
    draw=_draw_tuner,
    differs=lambda request: [f"{_where(request)}; the tuner measures in shorter intervals at a small scale."],
    seeds=(2, 2),
    hours=0.11,
)
