"""Stooke & Abbeel, figures 2 and 4 and section 5.5: policy gradients with many simulators."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from veldt.experiments.catalogue.common import (
    ALONE,
    STOOKE,
    by_x,
    envs_of,
    kept_from_the_smallest,
    line_over_x,
    scores_over_x,
    scores_table,
    seeded,
    small_env_differs,
)
from veldt.experiments.catalogue.verdicts import Verdict, at_least, at_most, between, comparison, mean
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Drawing, Exhibit, Table, learning_curves, lines, number
from veldt.experiments.planning.games import refuse_others_than_atari
from veldt.experiments.results import FinishedRun, Results, mean_of
from veldt.formatting import counted, duration
from veldt.report.finished_episodes import mean_of_last
from veldt.runs.episodes import WINDOW

_TEN_MINUTES = 600.0
_ORTHOGONAL, _NEAR = 2**-0.5, 0.05
_SMALL_STEPS, _PAPER_STEPS = 150_000, 25_000_000
# With 128 simulators an update of A2C takes 2,048 steps: nearly 500 updates, where 150,000 steps allow 73.
_SMALL_STEPS_OF_SIMULATORS = 1_000_000
# What figure 2 scales a method by, if not by its simulators.
_AXES = {"a3c": ("learner", "learners"), "appo": ("update per exchange", "updates per exchange")}
_SIMULATORS = ("simulator", "simulators")
_PAPER_GAMES = ("ALE/Breakout-v5", "ALE/Pong-v5", "ALE/Qbert-v5", "ALE/SpaceInvaders-v5")


def _envs(request: Request) -> tuple[str, ...]:
    if not request.is_small:
        for env in request.games:
            refuse_others_than_atari(env, env, request.scale)
    return envs_of(request, *_PAPER_GAMES)


def _steps(request: Request, small_steps: int = _SMALL_STEPS) -> int:
    return small_steps if request.is_small else _PAPER_STEPS


def _simulators(request: Request) -> list[Training]:
    points = _small_simulators() if request.is_small else _figure_2()
    return [
        job
        for env in _envs(request)
        for method, x, recipe, settings in points
        for job in seeded(
            request,
            group=counted(x, *_axis(request, method)),
            recipe=recipe,
            env=env,
            settings={**ALONE, "steps": _steps(request, _SMALL_STEPS_OF_SIMULATORS), **settings},
            panel=f"{method} on {env}",
            x=x,
            cores=settings.get("learners", 1),
        )
    ]


# Method, number on its axis, recipe, and settings besides the recipe's.
Point = tuple[str, int, str, dict[str, Any]]


def _small_simulators() -> list[Point]:
    points: list[Point] = []
    for method in ("a2c", "ppo", "a3c", "appo"):
        for count in (8, 32, 128):
            settings = {"num_envs": count}
            if method in ("a3c", "appo"):
                settings["learners"] = min(count // 8, 2)
            if method in ("ppo", "appo"):
                settings["batch_size"] = 256 * 8 if count <= 64 else 32 * count
                if method == "appo":
                    settings["batch_size"] //= settings["learners"]
            points.append((method, count, method, settings))
    return points


def _figure_2() -> list[Point]:
    """Section 5.2: PPO's batch of 2,048 steps and A2C's horizon of 5 remain, whatever the number of simulators."""
    doubled = [2**power for power in range(10)]
    return [
        *(("a2c", count, *_paper_a2c(count)) for count in doubled[4:]),
        *(("ppo", count, "ppo-8x256", {"num_envs": count}) for count in doubled[3:]),
        *(("a3c", count, "a3c-16", {"learners": count, "num_envs": 16 * count}) for count in doubled[:6]),
        *(("appo", count, "appo-8", {"learners": 8, "local_steps": count}) for count in doubled[:3]),
    ]


def _paper_a2c(count: int) -> tuple[str, dict[str, Any]]:
    """Returns the recipe of so many simulators, and its settings: those of 512 alone have a step size of their own."""
    return "a2c-512" if count == 512 else "a2c-16", {"num_envs": count}


def _axis(request: Request, method: str) -> tuple[str, str]:
    """Returns what a method is scaled by: one, and several."""
    return _SIMULATORS if request.is_small else _AXES.get(method, _SIMULATORS)


def _draw_simulators(results: Results) -> Exhibit:
    is_small = results.request.is_small
    scores, verdicts = kept_from_the_smallest(
        results, lambda job: math.nan if is_small and job.recipe == "appo" else math.inf
    )
    by = "simulators" if is_small else "simulators (A3C: learners of 16, APPO: updates per exchange)"
    of_appo = (
        "it has no such figure of APPO"
        if is_small
        else "that A3C degrades in some only with the most learners, and that APPO stays consistent in several games "
        "with fewer exchanges"
    )
    says = comparison(
        f"Final scores by {by}: {scores}" if scores else "",
        "The paper finds that in most cases A2C, A3C and PPO with many simulators match those with few, with some loss "
        f"at the largest numbers (here: nine tenths of the score are kept); {of_appo}",
        verdicts,
    )
    return Exhibit(says, [*_over_axes(results), learning_curves(results)], [scores_table(results)])


def _over_axes(results: Results) -> list[Drawing]:
    """Returns the final scores of the methods that are scaled by the same, for each of what they are scaled by."""
    by_axis: dict[str, list[FinishedRun]] = {"simulators": []}
    for run in results.runs:
        _, axis = _axis(results.request, run.job.chart.partition(" on ")[0])
        by_axis.setdefault(axis, []).append(run)
    return [
        scores_over_x(
            dataclasses.replace(results, runs=runs),
            f"Scores over {axis}",
            f"Final score at equal steps over the number of {axis}.",
            axis,
        )
        for axis, runs in by_axis.items()
    ]


def _differs(request: Request, small_steps: int = _SMALL_STEPS) -> Sequence[str]:
    return small_env_differs(request, small_steps, "Atari games and 25 M steps")


_SMALL_SIMULATORS_DIFFER = (
    "PPO's batch is 2,048 steps, or 32 of each simulator where that is more; A2C's grows with the simulators.",
    "A3C has up to 2 learners, where the paper has one for each 16 simulators.",
    "APPO by its simulators, where the paper varies how often its learners communicate.",
)
_FIGURE_2_DIFFERS = (
    "Learners share this machine's cores and GPU, where each of the paper's up to 8 GPUs has 5 cores.",
    "The paper's text has the ends of each range alone; the powers of two between them are chosen here, and so are the "
    "games.",
)

SIMULATORS = Experiment(
    name="simulators",
    source=f"{STOOKE}, figure 2",
    shows="Scores at equal steps of A2C, PPO, A3C and APPO, by their number of simulators.",
    jobs=_simulators,
    draw=_draw_simulators,
    differs=lambda request: [
        *_differs(request, _SMALL_STEPS_OF_SIMULATORS),
        *(_SMALL_SIMULATORS_DIFFER if request.is_small else _FIGURE_2_DIFFERS),
    ],
    seeds=(3, 3),
    hours=0.4,
)


# Section 5.4 has the 8 GPUs and A2C's simulators, table 2 the simulators of each GPU.
_FIGURE_4: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a2c-256", {"learners": 8}),
    ("a3c-16", {"learners": 8}),
    ("ppo-8x256", {"learners": 8, "num_envs": 64}),
    ("appo-8", {"learners": 8}),
)
_SMALL_METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a2c", {}),
    ("a3c", {"learners": 2}),
    ("ppo", {}),
    ("appo", {"learners": 2}),
)


def _minutes(request: Request) -> list[Training]:
    return [
        job
        for env in _envs(request)
        for recipe, settings in (_SMALL_METHODS if request.is_small else _FIGURE_4)
        for job in seeded(
            request,
            group=recipe,
            recipe=recipe,
            env=env,
            settings={**ALONE, "steps": _steps(request), **settings},
            cores=0,  # the time is the result
        )
    ]


def _draw_minutes(results: Results) -> Exhibit:
    longest = max((run.seconds for run in results.runs), default=0.0)
    unit, per = ("minutes", 60.0) if longest > 180 else ("seconds", 1.0)
    drawing = learning_curves(
        results, "Scores over time", f"{unit} of training", lambda run, steps: run.seconds_at(steps) / per
    )
    rows, here, verdicts = [], [], {}
    for chart, groups in results.charts().items():
        goal = _goal([run for runs in groups.values() for run in runs])
        phrases = []
        for group, runs in groups.items():
            seconds = [float(run.seconds_at(run.steps_to(goal))) for run in runs]
            reached = [each for each in seconds if math.isfinite(each)]
            verdicts[f"{group} on {chart}"] = _in_time(seconds, runs)
            time = duration(mean(reached).value) if reached else f"not within {duration(runs[0].seconds)}"
            only = f" ({len(reached)} of {len(runs)} seeds)" if 0 < len(reached) < len(runs) else ""
            phrases.append(f"{group} {time}{only}")
            speed, score = (number(*mean_of(runs, of)) for of in map(attrgetter, ("speed", "score")))
            rows.append((chart, group, str(len(runs)), speed, score, number(goal), f"{time}{only}"))
        here.append(f"{number(goal)} on {chart}: {', '.join(phrases)}")
    says = comparison(
        f"Time to a mean return that is four fifths of the way up to the best, {'; '.join(here)}"
        if here
        else "",
        "The paper finds that in several games all four methods complete the steep first phase of learning within 10 "
        "minutes, on 8 GPUs",
        verdicts,
    )
    header = ("chart", "method", "seeds", "steps per second", "score", "mean return to reach", "time to it")
    caption = "The mean return is that of the last 100 episodes; steps per second are those from the first update on."
    return Exhibit(says, [drawing], [Table("Time to learn", header, rows, caption), scores_table(results)])


def _goal(runs: Sequence[FinishedRun]) -> float:
    """Returns the mean return of 100 episodes that ends the steep phase: four fifths of the way up to the best."""
    means = [mean_of_last(run.episodes[1])[WINDOW - 1 :] for run in runs]
    known = np.concatenate(means)
    return float(known.min() + 0.8 * (known.max() - known.min())) if len(known) else math.nan


def _in_time(seconds: Sequence[float], runs: Sequence[FinishedRun]) -> Verdict:
    """Whether runs reached a score within ten minutes; `seconds` until then, NaN of those that did not."""
    missed = [run.seconds for run, at in zip(runs, seconds, strict=True) if math.isnan(at)]
    if not missed:
        return at_most(mean(seconds), _TEN_MINUTES)
    if min(missed) < _TEN_MINUTES:
        return Verdict(None, "runs that end within 10 minutes do not reach it")
    if len(missed) < len(runs):
        return Verdict(None, "only some seeds reach it")
    return Verdict(False) if len(runs) > 1 else Verdict(None, "one seed does not show how much seeds differ")


MINUTES = Experiment(
    name="minutes",
    source=f"{STOOKE}, figure 4",
    shows="Scores over the time of training, of the policy gradient methods; one run at a time has all cores.",
    jobs=_minutes,
    draw=_draw_minutes,
    differs=lambda request: [
        *_differs(request),
        "The cores of this machine instead of 8 GPUs and 40 cores; A3C and APPO have two learners, A2C and PPO one."
        if request.is_small
        else "All have the paper's 8 learners, on this machine instead of 8 GPUs and 40 cores. A2C has the paper's 256 "
        "simulators. Its text does not say how many the others have in this figure: they have those of its table 2, 16 "
        "of each learner in A3C, 8 in PPO and APPO.",
    ],
    seeds=(2, 2),
    hours=0.029,
)


_SMALL_SATURATION = (16, 64, 256)


def _saturation(request: Request) -> list[Training]:
    counts = _SMALL_SATURATION if request.is_small else (16, 32, 64, 128, 256, 512)
    return [
        job
        for env in _envs(request)
        for count in counts
        for recipe, settings in [("a2c", {"num_envs": count}) if request.is_small else _paper_a2c(count)]
        for job in seeded(
            request,
            group=f"{count} simulators",
            recipe=recipe,
            env=env,
            settings={**ALONE, "steps": _steps(request), **settings, "log_saturation": True},
            x=count,
        )
    ]


def _draw_saturation(results: Results) -> Exhibit:
    panels, here, verdicts = {}, [], {}
    for chart, groups in results.charts().items():
        panels[chart] = {"full against half batch": line_over_x(groups, _cosine)}
        ordered = by_x(groups)
        few, many = (mean([_cosine(run) for run in runs]) for runs in (ordered[0], ordered[-1]))
        least, most = (f"{runs[0].job.x:g} simulators" for runs in (ordered[0], ordered[-1]))
        here.append(f"{few} with {least} and {many} with {most} on {chart}")
        verdicts[f"{least} on {chart}"] = between(few, _ORTHOGONAL - _NEAR, _ORTHOGONAL + _NEAR)
        if ordered[0] is not ordered[-1]:
            verdicts[f"{most} on {chart}"] = at_least(many, _ORTHOGONAL + _NEAR)
    says = comparison(
        f"Cosine of the full and the half batch's gradients: {'; '.join(here)}" if here else "",
        "The paper measures near 1/√2 = 0.707 with few simulators, as for halves whose gradients are orthogonal, and "
        f"significantly more with many, such as 256 (here: within {_NEAR} of it with the fewest, and more than that "
        "above it with the most)",
        verdicts,
    )
    drawing = lines(
        "Saturation of the gradient estimate",
        "Mean cosine of the gradients of a batch and of half of it.",
        panels,
        "simulators",
        "cosine",
        logarithmic=True,
        references={"1/√2": _ORTHOGONAL},
    )
    return Exhibit(says, [drawing], [scores_table(results)])


def _cosine(run: FinishedRun) -> float:
    return run.metric("train/gradient_cosine")


SATURATION = Experiment(
    name="saturation",
    source=f"{STOOKE}, section 5.5",
    shows="How alike the gradients of a batch and of its half are, by the number of simulators (A2C).",
    jobs=_saturation,
    draw=_draw_saturation,
    differs=lambda request: [
        *_differs(request),
        *(
            [f"{', '.join(map(str, _SMALL_SATURATION))} simulators instead of 16 to 512."]
            if request.is_small
            else []
        ),
    ],
    seeds=(5, 2),
    hours=0.038,
)
