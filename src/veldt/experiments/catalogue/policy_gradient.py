"""Stooke & Abbeel, figures 2 and 4 and section 5.5: policy gradients with many simulators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from veldt.experiments.catalogue.common import (
    ALONE,
    SMALL_ENV,
    STOOKE,
    kept_from_the_smallest,
    line_over_x,
    scores_over_x,
    scores_table,
    seeded,
    small_env_differs,
)
from veldt.experiments.catalogue.verdicts import Verdict, at_least, at_most, between, comparison, mean
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Table, learning_curves, lines, number
from veldt.experiments.results import FinishedRun, Results, mean_of
from veldt.formatting import duration
from veldt.report.finished_episodes import mean_of_last
from veldt.runs.episodes import WINDOW

_TEN_MINUTES = 600.0
_ORTHOGONAL, _NEAR = 2**-0.5, 0.05
_SMALL_STEPS, _PAPER_STEPS = 150_000, 25_000_000
# With 128 simulators an update of A2C takes 2,048 steps: nearly 500 updates, where 150,000 steps allow 73.
_SMALL_STEPS_OF_SIMULATORS = 1_000_000
_PAPER_GAMES = ("ALE/Breakout-v5", "ALE/Pong-v5", "ALE/Qbert-v5", "ALE/SpaceInvaders-v5")


def _env_list(request: Request) -> tuple[str, ...]:
    return request.envs(*((SMALL_ENV,) if request.is_small else _PAPER_GAMES))


def _steps(request: Request, small_steps: int = _SMALL_STEPS) -> int:
    return small_steps if request.is_small else _PAPER_STEPS


def _simulators(request: Request) -> list[Training]:
    counts = (8, 32, 128) if request.is_small else (8, 16, 32, 64, 128, 256, 512)
    steps = _steps(request, _SMALL_STEPS_OF_SIMULATORS)
    jobs = []
    for env in _env_list(request):
        for recipe in ("a2c", "ppo", "a3c", "appo"):
            for count in counts:
                settings: dict[str, Any] = {**ALONE, "steps": steps, "num_envs": count}
                if recipe in ("a3c", "appo"):
                    settings["learners"] = min(count // 8, 2 if request.is_small else 8)
                if recipe in ("ppo", "appo"):
                    settings["batch_size"] = 256 * 8 if count <= 64 else 32 * count
                    if recipe == "appo":
                        settings["batch_size"] //= settings["learners"]
                jobs += seeded(
                    request,
                    group=f"{count} simulators",
                    recipe=recipe,
                    env=env,
                    settings=settings,
                    panel=f"{recipe} on {env}",
                    x=count,
                    cores=settings.get("learners", 1),
                )
    return jobs


def _draw_simulators(results: Results) -> Exhibit:
    # Figure 2 has no APPO by its simulators: there its communication period varies.
    scores, verdicts = kept_from_the_smallest(
        results, lambda job: math.nan if job.recipe == "appo" else math.inf
    )
    says = comparison(
        f"Final scores by simulators: {scores}" if scores else "",
        "The paper finds that in most cases A2C, A3C and PPO with many simulators match those with few, with some loss "
        "at the largest numbers (here: nine tenths of the score are kept); it has no such figure of APPO",
        verdicts,
    )
    caption = "Final score at equal steps over the number of simulators."
    return Exhibit(
        says,
        [
            scores_over_x(results, "Scores over simulators", caption, "simulators"),
            learning_curves(results),
        ],
        [scores_table(results)],
    )


def _differs(request: Request, small_steps: int = _SMALL_STEPS) -> Sequence[str]:
    return small_env_differs(request, small_steps, "Atari games and 25 M steps")


SIMULATORS = Experiment(
    name="simulators",
    source=f"{STOOKE}, figure 2",
    shows="Scores at equal steps of A2C, PPO, A3C and APPO, by their number of simulators.",
    jobs=_simulators,
    draw=_draw_simulators,
    differs=lambda request: [
        *_differs(request, _SMALL_STEPS_OF_SIMULATORS),
        "PPO's batch is 2,048 steps, or 32 of each simulator where that is more; A2C's grows with the simulators.",
        f"A3C has up to {2 if request.is_small else 8} learners, where the paper has one for each 16 simulators.",
        "APPO by its simulators, where the paper varies how often its learners communicate.",
    ],
    seeds=(3, 3),
    hours=0.4,
)


def _minutes(request: Request) -> list[Training]:
    return [
        Training(
            group=recipe,
            recipe=recipe,
            env=env,
            seed=seed,
            settings={
                **ALONE,
                "steps": _steps(request),
                **({"learners": 2} if recipe in ("a3c", "appo") else {}),
            },
            cores=0,  # the time is the result
        )
        for env in _env_list(request)
        for recipe in ("a2c", "a3c", "ppo", "appo")
        for seed in request.seed_range
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
        "The cores of this machine instead of 8 GPUs and 40 cores; A3C and APPO have two learners, A2C and PPO one.",
    ],
    seeds=(2, 2),
    hours=0.029,
)


def _saturation(request: Request) -> list[Training]:
    counts = (16, 64, 256) if request.is_small else (16, 32, 64, 128, 256, 512)
    return [
        Training(
            group=f"{count} simulators",
            recipe="a2c",
            env=env,
            seed=seed,
            settings={**ALONE, "steps": _steps(request), "num_envs": count, "log_saturation": True},
            x=count,
        )
        for env in _env_list(request)
        for count in counts
        for seed in request.seed_range
    ]


def _draw_saturation(results: Results) -> Exhibit:
    panels, here, verdicts = {}, [], {}
    for chart, groups in results.charts().items():
        panels[chart] = {"full against half batch": line_over_x(groups, _cosine)}
        ordered = sorted(groups.values(), key=lambda runs: runs[0].job.x)
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
    differs=_differs,
    seeds=(5, 2),
    hours=0.038,
)
