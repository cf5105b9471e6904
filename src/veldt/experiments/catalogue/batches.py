"""Stooke & Abbeel, figure 3 and appendix D: Q-learning with large batches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from veldt.envs.source import ATARI_PREFIX
from veldt.experiments.catalogue.common import (
    ALONE,
    REPLAY_NOT_KEPT,
    STOOKE,
    by_x,
    envs_of,
    kept_from_the_smallest,
    replay_settings,
    scores_over_x,
    scores_table,
    seeded,
    small_env_differs,
)
from veldt.experiments.catalogue.verdicts import at_least, at_most, comparison, ratio
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Line, Table, learning_curves, lines, mean_of_curves, number
from veldt.experiments.results import FinishedRun, Results, mean_of
from veldt.formatting import counted

_SMALL_STEPS, _PAPER_STEPS = 60_000, 50_000_000
# More than 900 updates by batches of 2,048, where 60,000 steps allow 220.
_SMALL_STEPS_OF_BATCHES = 240_000
_PAPER_GAMES = ("ALE/Breakout-v5", "ALE/Pong-v5", "ALE/Qbert-v5", "ALE/Seaquest-v5")
_CONSISTENT_UP_TO = {"dqn": 512, "c51": 2048, "rainbow": 512}  # section 5.3


def _settings(request: Request, env: str, batch: int, small_steps: int = _SMALL_STEPS) -> dict[str, Any]:
    """Returns the settings of all runs with this batch: each step is used 8 times, as in the paper."""
    settings = {
        **ALONE,
        "steps": small_steps if request.is_small else _PAPER_STEPS,
        **replay_settings(env, batch),
    }
    settings |= {"training_intensity": 8.0, "horizon": 0, **REPLAY_NOT_KEPT}
    return settings


def _batches(request: Request) -> list[Training]:
    sizes = (32, 128, 512, 2048) if request.is_small else (32, 128, 512, 1024, 2048)
    jobs = []
    for env in envs_of(request, *_PAPER_GAMES):
        for recipe in ("dqn", "c51", "rainbow"):
            for batch in sizes:
                settings = _settings(request, env, batch, _SMALL_STEPS_OF_BATCHES)
                if request.is_small:
                    # Adam at a constant step size, as the paper has it for its distributional methods.
                    settings["learning_rate"] = 1e-3
                jobs += seeded(
                    request,
                    group=f"batch {batch}",
                    recipe=recipe,
                    env=env,
                    settings=settings,
                    panel=f"{recipe} on {env}",
                    x=batch,
                )
    return jobs


def _draw_batches(results: Results) -> Exhibit:
    scores, verdicts = kept_from_the_smallest(results, lambda job: _CONSISTENT_UP_TO[job.recipe])
    says = comparison(
        f"Final scores by batch size: {scores}" if scores else "",
        "The paper finds DQN and ε-Rainbow consistent up to 512, and Categorical DQN up to 2,048, with each step used "
        "8 times (here: nine tenths of the score of the smallest batch are kept)",
        verdicts,
    )
    caption = "Final score at equal steps over the batch size."
    return Exhibit(
        says,
        [
            scores_over_x(results, "Scores over batch sizes", caption, "batch size"),
            learning_curves(results),
        ],
        [scores_table(results)],
    )


def _differs(request: Request, small_steps: int = _SMALL_STEPS) -> Sequence[str]:
    return small_env_differs(request, small_steps, "Atari games and 50 M steps")


BATCHES = Experiment(
    name="batches",
    source=f"{STOOKE}, figure 3",
    shows="Scores at equal steps of DQN, Categorical DQN and ε-Rainbow, by their batch size.",
    jobs=_batches,
    draw=_draw_batches,
    differs=lambda request: [
        *_differs(request, _SMALL_STEPS_OF_BATCHES),
        *(
            ["Adam with one step size for all batches, where the paper's DQN has RMSProp with one for each."]
            if request.is_small
            else [
                "The scores are those of training, with its exploration; the paper's are of an evaluation after each "
                "million steps. The paper's text has batches of 32, 512, 1,024 and 2,048 in this figure; 128 is chosen "
                "here."
            ]
        ),
    ],
    seeds=(3, 2),
    hours=0.6,
)


def _norms_envs(request: Request) -> tuple[str, ...]:
    return envs_of(request, "ALE/Qbert-v5")


# Appendix D: RMSProp needs steps 20 times as large from batches of 64 to 1,024; Adam the same for all.
_STEP_SIZES = {
    "adam": {64: 4.2e-4, 256: 4.2e-4, 1024: 4.2e-4},
    "rmsprop": {64: 2.5e-4, 256: 1e-3, 1024: 5e-3},
}
# Of RMSProp with the smallest batch, those that are slightly too low and slightly too high in the paper.
_TOO_SMALL, _TOO_LARGE = "too small", "too large"
_OTHER_STEP_SIZES = {_TOO_SMALL: 1e-4, _TOO_LARGE: 5e-4}


def _norms(request: Request) -> list[Training]:
    jobs = []
    for env in _norms_envs(request):
        for optimiser, of_batch in _STEP_SIZES.items():
            rates = [("", batch, rate) for batch, rate in of_batch.items()]
            if optimiser == "rmsprop":
                rates += [(f"{name}: ", min(of_batch), rate) for name, rate in _OTHER_STEP_SIZES.items()]
            for name, batch, rate in rates:
                settings = _settings(request, env, batch) | {
                    "optimiser": optimiser,
                    "learning_rate": rate,
                    "scale_learning_rate": "none",  # the recipe would scale it with the batch on Atari
                    "log_norms": True,
                }
                jobs += seeded(
                    request,
                    group=f"{name}batch {batch}, step size {rate:g}",
                    recipe="c51",
                    env=env,
                    settings=settings,
                    panel=f"{optimiser} on {env}",
                    x=batch,
                )
    return jobs


_QUANTITIES = {"weights": "norm of weights", "gradient": "norm of the gradient", "step": "norm of a step"}
# The largest norm over the smallest that still counts as "fairly tight"; the paper has no number.
_TIGHT = 1.25


def _draw_norms(results: Results) -> Exhibit:
    drawings = [learning_curves(results)]
    seeds = max((len(runs) for _, _, runs in results.groups()), default=0)
    for quantity, vertical in _QUANTITIES.items():
        panels: dict[str, dict[str, Line]] = {}
        for chart, group, runs in results.groups():
            for weight in _drawn_layers(runs[0].layers):
                name = f"norms/{quantity}/{weight}"
                curves = [run.metric_curve(name) for run in runs]
                line = dataclasses.replace(mean_of_curves(curves), is_dashed=bool(_name_of(group)))
                panels.setdefault(f"{chart}, {weight}", {})[group] = line
        caption = (
            f"L2 norms during the run, mean of {counted(seeds, 'seed', 'seeds')}: {vertical}. Dashed: step sizes that "
            "are too small or too large in the paper."
        )
        drawings.append(lines(f"Norms - {quantity}", caption, panels, "agent steps", vertical))
    return Exhibit(_say_norms(results), drawings, [scores_table(results), _norms_table(results)])


def _drawn_layers(layers: Mapping[str, int]) -> Iterable[str]:
    """Returns the first convolution and the first linear layer; without convolutions, the first and the last layer."""
    names = list(layers)
    linear = [name for name in names if layers[name] == 2]
    if len(linear) == len(names):
        return dict.fromkeys(names[:1] + names[-1:])
    convolution = next(name for name in names if layers[name] > 2)
    return [convolution, *linear[:1]]


def _norms_table(results: Results) -> Table:
    """Returns the norms of all parameters as one vector, by group."""
    rows = [
        (
            chart,
            group,
            str(len(runs)),
            number(*mean_of(runs, _last_weights)),
            number(*mean_of(runs, _gradient)),
            number(*mean_of(runs, lambda run: run.metric("norms/step"))),
        )
        for chart, group, runs in results.groups()
    ]
    header = ("chart", "configuration", "seeds", "weights at the end", "gradient, mean", "step, mean")
    return Table("Norms of all parameters", header, rows)


def _last_weights(run: FinishedRun) -> float:
    """Returns the norm of all weights at the end of a run; NaN if it is unknown."""
    return run.last("norms/weights")


def _gradient(run: FinishedRun) -> float:
    return run.metric("norms/gradient")


def _name_of(group: str) -> str:
    """Returns what a group's step size is in the paper, too small or too large; "" of all others."""
    return next((name for name in _OTHER_STEP_SIZES if group.startswith(name)), "")


def _say_norms(results: Results) -> str:
    here, verdicts = [], {}
    for chart, of_chart in results.charts().items():
        groups = {group: runs for group, runs in of_chart.items() if not _name_of(group)}
        others = {name: runs for group, runs in of_chart.items() if (name := _name_of(group))}
        if not groups:
            continue
        ordered = by_x(groups)
        first, last = ordered[0], ordered[-1]
        # Seed by seed: the largest norm of the weights over the smallest, the gradient's of large batches over small.
        spread = ratio(_by_seed(ordered, _last_weights, lambda norms: max(norms) / min(norms)))
        gradient = ratio(_by_seed([first, last], _gradient, lambda norms: norms[1] / norms[0]))
        sizes = f"{first[0].job.x:g} to {last[0].job.x:g}"
        here.append(
            f"{chart}, batches of {sizes}: the largest norm of all weights at the end is {spread} times the smallest, "
            f"and the gradient's mean norm with the largest batch {gradient} times that with the smallest"
        )
        for name, judge in ((_TOO_SMALL, at_most), (_TOO_LARGE, at_least)):
            if name in others and first[0].job.x == others[name][0].job.x:
                times = ratio(
                    _by_seed([first, others[name]], _last_weights, lambda norms: norms[1] / norms[0])
                )
                rate = others[name][0].job.settings["learning_rate"]
                here.append(
                    f"with batches of {first[0].job.x:g} that norm is at a step size of {rate:g} {times} times that at "
                    f"{first[0].job.settings['learning_rate']:g}"
                )
                verdicts[f"a step size that is {name} on {others[name][0].job.env}"] = judge(times, 1.0)
        if first is last:
            continue
        verdicts[f"the weights of {chart}"] = at_most(spread, _TIGHT)
        verdicts[f"the gradients of {chart}"] = at_most(gradient, 1.0)
    return comparison(
        "; ".join(here),
        "The paper finds the norms of weights close together for all batch sizes (here: within a quarter), by Adam at "
        "one step size and by RMSProp at one for each, smaller gradients with larger batches, and by RMSProp "
        "small norms of weights at a step size that is too small and large ones at one that is too large",
        verdicts,
    )


def _by_seed(
    groups: Sequence[Sequence[FinishedRun]],
    norm: Callable[[FinishedRun], float],
    compare: Callable[[list[float]], float],
) -> list[float]:
    """Returns `compare` of the norms of each seed whose norm is known in all groups."""
    found = [{run.job.seed: known for run in runs if math.isfinite(known := norm(run))} for runs in groups]
    seeds = sorted(set(found[0]).intersection(*found[1:]))
    return [compare([of_group[seed] for of_group in found]) for seed in seeds]


def _layers_differ(request: Request) -> list[str]:
    """Returns what is said of the drawn layers where a network may have no convolutions."""
    if all(env.startswith(ATARI_PREFIX) for env in _norms_envs(request)):
        return []
    return [
        "Of networks without convolutions the first and the last layer are drawn, where the paper has the first "
        "convolution and the first fully connected layer."
    ]


NORMS = Experiment(
    name="norms",
    source=f"{STOOKE}, appendix D, figure 8",
    shows="Norms of weights, gradients and steps of two layers, by batch size: Adam and RMSProp.",
    jobs=_norms,
    draw=_draw_norms,
    differs=lambda request: [
        *_differs(request),
        *_layers_differ(request),
        "The norms in words and in the table are those of all parameters as one vector.",
        *(
            [
                "The step sizes are the paper's, and need not be too small or too large here.",
                "The runs are short: large batches make few updates in them, so that they may learn later than small "
                "ones. In the paper, the step sizes keep the learning curves alike.",
            ]
            if request.is_small
            else []
        ),
    ],
    seeds=(3, 2),
    hours=0.12,
)
