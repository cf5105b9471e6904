"""GA3C: predictors and trainers, and the tuner that chooses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from veldt.experiments.catalogue.common import ALONE, envs_of, scores_table, seeded
from veldt.experiments.catalogue.verdicts import NOTHING, Estimate, Verdict, at_least, comparison, mean, ratio
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Drawing, Exhibit, Surface, Table, learning_curves, number, surfaces
from veldt.experiments.results import FinishedRun, Results, mean_of
from veldt.formatting import counted

_SOURCE = "Babaeizadeh et al. 2017 (GA3C)"
_TUNED = "tuned"
_ON_GPU = ", on the GPU"
_FASTER = 1.1  # times as many trainings per second: one pair of numbers counts as better than another
_PREDICTORS, _TRAINERS = "system/predictors", "system/trainers"
_PPS = "time/predictions_per_second"
# Of all runs of an experiment: later steps are faster, because episodes are longer.
_SMALL_NETWORK_STEPS, _SMALL_TUNER_STEPS = 50_000, 80_000
Group = Sequence[FinishedRun]  # the runs of a pair of numbers, by seed


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
    return {"": {"device": "cpu"}, _ON_GPU: {"device": "cuda"}} if _sees_gpu() else {"": {}}


def _sees_gpu() -> bool:
    from veldt.runtime.devices import choose_device  # it imports torch

    return choose_device("auto").type == "cuda"


def _differs(request: Request) -> list[str]:
    """Returns what differs in both experiments; the same on all machines."""
    rollouts = ["Rollouts of 16 steps, instead of the paper's 5."] if request.is_small else []
    return [
        f"{', '.join(_envs(request))}, with the network computed on this machine's processor, and in charts of its own "
        "on its GPU only where torch sees one; the paper's is on a GPU.",
        "Each rollout is an update of its own, as in the paper, with the recipe's learning rate for a mean over its "
        "steps, where the authors' code has a sum.",
        *rollouts,
    ]


def _settings(request: Request, small_steps: int, paper_steps: int) -> dict[str, Any]:
    return {
        **ALONE,
        "steps": small_steps if request.is_small else paper_steps,
        "num_envs": _num_envs(request),
        "group_rollouts": False,
    }


def _fixed(
    request: Request, env: str, panel: str, settings: Mapping[str, Any], small_steps: int
) -> list[Training]:
    """Returns the runs of each pair of numbers of predictors and trainers."""
    counts = (1, 2, 4) if request.is_small else (1, 2, 4, 8)
    return [
        job
        for predictors in counts
        for trainers in counts
        for job in seeded(
            request,
            group=f"{counted(predictors, 'predictor', 'predictors')}, {counted(trainers, 'trainer', 'trainers')}",
            recipe="ga3c",
            env=env,
            settings={
                **_settings(request, small_steps, 2_000_000),
                "predictors": predictors,
                "trainers": trainers,
                "tuner_interval": 0.0,
                **settings,
            },
            panel=panel,
            cores=0,
        )
    ]


def _trainings_per_second(run: FinishedRun) -> float:
    """Returns the updates per second from the first one on, without the start: TPS; NaN if the run is too short."""
    rows = [row for row in run.rows if row.get("train/updates")]
    if len(rows) < 2 or rows[-1]["seconds"] <= rows[0]["seconds"]:
        return float("nan")
    updates = rows[-1]["train/updates"] - rows[0]["train/updates"]
    return float(updates / (rows[-1]["seconds"] - rows[0]["seconds"]))


def _predictions_per_second(run: FinishedRun) -> float:
    """Returns the mean of the requests that are answered per second while the run learns: PPS; NaN if it is unknown."""
    learning = [row for row in run.rows if row.get("train/updates")][1:]
    known = [row[_PPS] for row in learning if row.get(_PPS) is not None]
    return float(np.mean(known)) if known else float("nan")


def _tps(runs: Group) -> list[float]:
    return [_trainings_per_second(run) for run in runs]


def _surface(
    groups: Mapping[str, Group],
    speed: Callable[[FinishedRun], float],
    paths: Mapping[str, Sequence[tuple[float, float]]],
) -> Surface:
    """Returns the mean speed of runs with fixed numbers over these numbers."""
    chosen = {
        (runs[0].job.settings["trainers"], runs[0].job.settings["predictors"]): mean_of(runs, speed)[0]
        for runs in groups.values()
    }
    trainers, predictors = (sorted({pair[axis] for pair in chosen}) for axis in (0, 1))
    values = [[chosen.get((row, column), np.nan) for column in predictors] for row in trainers]
    return Surface(np.array(values), trainers, predictors, paths)


def _surfaces(
    title: str,
    note: str,
    charts: Mapping[str, Mapping[str, Group]],
    paths: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]] | None = None,
) -> list[Drawing]:
    """Returns the surfaces of trainings per second and those of steps per second."""
    seeds = max((len(runs) for groups in charts.values() for runs in groups.values()), default=0)
    of = f"mean of {counted(seeds, 'run', 'runs')} of each pair{note}"
    return [
        surfaces(
            f"{title}{more}",
            f"{what}, {of}.",
            {
                chart: _surface(groups, speed, (paths or {}).get(chart, {}))
                for chart, groups in charts.items()
            },
            "predictors",
            "trainers",
        )
        for more, what, speed in (
            ("", "Trainings per second (TPS, updates)", _trainings_per_second),
            (" - steps", "Agent steps per second", attrgetter("speed")),
        )
    ]


def _speeds_table(results: Results) -> Table:
    """Returns the speeds of each group, with their intervals."""
    speeds = (_trainings_per_second, _predictions_per_second, attrgetter("speed"))
    rows = [
        (chart, group, str(len(runs)), *(number(*mean_of(runs, speed)) for speed in speeds))
        for chart, groups in results.charts().items()
        for group, runs in groups.items()
    ]
    header = (
        "chart",
        "configuration",
        "seeds",
        "trainings per second (TPS)",
        "predictions per second (PPS)",
        "agent steps per second",
    )
    return Table(
        "Speeds", header, rows, "Means from the first update on, with their 95% bootstrap intervals."
    )


def _fixed_groups(groups: Mapping[str, Group]) -> dict[str, Group]:
    """Returns the runs with fixed numbers whose speed is known, by group."""
    fixed = {group: runs for group, runs in groups.items() if group != _TUNED}
    return {group: runs for group, runs in fixed.items() if np.isfinite(mean(_tps(runs)).value)}


def _best(groups: Mapping[str, Group]) -> str:
    return max(groups, key=lambda group: mean(_tps(groups[group])).value)


def _best_and_worst(chart: str, groups: Mapping[str, Group]) -> str:
    best, worst = _best(groups), min(groups, key=lambda group: mean(_tps(groups[group])).value)
    steps = number(mean_of(groups[best], attrgetter("speed"))[0])
    return (
        f"{chart}: the fastest pair ({best}) makes {mean(_tps(groups[best]))} trainings per second, and {steps} steps; "
        f"the slowest ({worst}) {mean(_tps(groups[worst]))}"
    )


def _found(results: Results, sentences: Sequence[str]) -> str:
    """Returns what is measured in words, and whether a GPU has a part in it; "" without anything."""
    if not sentences:
        return ""
    on_gpu = any(chart.endswith(_ON_GPU) for chart in results.charts())
    return "; ".join(sentences) + ("" if on_gpu else ". None of these runs used a GPU")


def _network(request: Request) -> list[Training]:
    jobs = [
        job
        for env in _envs(request)
        for name, network in _networks(request).items()
        for device, setting in _devices().items()
        for job in _fixed(request, env, f"{env}, {name}{device}", network | setting, _SMALL_NETWORK_STEPS)
    ]
    return _by_seed(jobs)


def _by_seed(jobs: Sequence[Training]) -> list[Training]:
    """Returns all runs of a seed before those of the next: other work on the machine slows down no pair alone."""
    return sorted(jobs, key=attrgetter("seed"))


def _differ(charts: Sequence[Mapping[str, Group]]) -> Verdict:
    """Whether the best numbers of one chart are a tenth slower on another than that chart's own, seed by seed."""
    verdicts = [
        at_least(_times_as_fast(groups[_best(groups)], groups[best]), _FASTER)
        for groups in charts
        for others in charts
        if others is not groups and (best := _best(others)) in groups
    ]
    for agrees in (True, None, False):
        if found := [verdict for verdict in verdicts if verdict.agrees is agrees]:
            return found[0]
    return Verdict(None, NOTHING)


def _times_as_fast(these: Group, those: Group) -> Estimate:
    """Returns how many times as many trainings per second some runs make as others with the same seeds."""
    known = {run.job.seed: speed for run in those if (speed := _trainings_per_second(run)) > 0}
    return ratio([_trainings_per_second(run) / known[run.job.seed] for run in these if run.job.seed in known])


def _draw_network(results: Results) -> Exhibit:
    charts = {chart: fixed for chart, groups in results.charts().items() if (fixed := _fixed_groups(groups))}
    says = comparison(
        _found(results, [_best_and_worst(chart, groups) for chart, groups in charts.items()]),
        "The paper finds the best numbers to depend on the environment, the size of the network and the machine (here: "
        "a chart's own best numbers make at least a tenth more trainings per second than those that are best on "
        "another)",
        {"": _differ(list(charts.values()))},
    )
    drawings = _surfaces("Predictors and trainers", "", charts)
    return Exhibit(says, drawings, [_speeds_table(results), scores_table(results)])


GA3C_NETWORK = Experiment(
    name="ga3c-network",
    source=f"{_SOURCE}, the numbers of predictors and trainers",
    shows="Trainings and steps per second over numbers of predictors and trainers, with a small and a large network.",
    jobs=_network,
    draw=_draw_network,
    differs=_differs,
    hours=0.24,
)


def _tuner(request: Request) -> list[Training]:
    charts = [
        (env, f"{env}{device}", setting) for env in _envs(request) for device, setting in _devices().items()
    ]
    fixed = [
        job
        for env, panel, setting in charts
        for job in _fixed(request, env, panel, setting, _SMALL_TUNER_STEPS)
    ]
    tuned = [
        job
        for env, panel, setting in charts
        for job in seeded(
            request,
            group=_TUNED,
            recipe="ga3c",
            env=env,
            settings={
                **_settings(request, _SMALL_TUNER_STEPS, 20_000_000),
                "tuner_interval": 0.5 if request.is_small else 60.0,
                "tuner_most": 4 if request.is_small else 8,
                "predictors": 1,
                "trainers": 1,
                # Its path is read from the rows of metrics.
                **({"log_every": 0.25} if request.is_small else {}),
                **setting,
            },
            panel=panel,
            cores=0,
        )
    ]
    return _by_seed([*fixed, *tuned])


def _draw_tuner(results: Results) -> Exhibit:
    charts, paths, found, verdicts = {}, {}, [], {}
    for chart, groups in results.charts().items():
        tuned, fixed = groups.get(_TUNED, []), _fixed_groups(groups)
        speed = mean(_tps(tuned))
        if fixed:
            charts[chart] = fixed
            paths[chart] = {f"seed {run.job.seed}": _path(run) for run in tuned}
            found.append(_best_and_worst(chart, fixed))
        if speed.values:
            found.append(f"the runs with the tuner make {speed} trainings per second on {chart}")
        verdicts[chart] = Verdict(None, NOTHING)
        if fixed and tuned:
            verdicts[chart] = at_least(_times_as_fast(tuned, fixed[_best(fixed)]), 0.9)
    says = comparison(
        _found(results, found),
        "The paper's tuner starts from one predictor and one trainer, and their numbers converge towards the best ones "
        "while the trainings per second increase (here: to nine tenths of those with the best fixed numbers)",
        verdicts,
    )
    note = ", and the numbers that the tuner has tried one after another (the star is the last)"
    drawings = _surfaces("The tuner's path", note, charts, paths)
    tables = [_speeds_table(results), scores_table(results)]
    return Exhibit(says, [*drawings, learning_curves(results)], tables)


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
    shows="The path of the tuner on the surface of trainings per second over predictors and trainers.",
    jobs=_tuner,
    draw=_draw_tuner,
    differs=lambda request: [
        *_differs(request),
        *(
            ["The tuner measures for half a second at a time instead of a minute."]
            if request.is_small
            else []
        ),
    ],
    seeds=(3, 2),
    hours=0.13,
)
