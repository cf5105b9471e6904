"""Stooke & Abbeel, figures 2 and 4 and section 5.5: policy gradients with many simulators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veldt.experiments.catalogue.common import (
    ALONE,
    SMALL_ENV,
    STOOKE,
    line_over_x,
    scores_over_x,
    scores_table,
    seeded,
    small_env_differs,
    smallest_and_largest,
)
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, learning_curves, lines, number
from veldt.experiments.results import Results

_SMALL_STEPS, _PAPER_STEPS = 150_000, 25_000_000
_PAPER_GAMES = ("ALE/Breakout-v5", "ALE/Pong-v5", "ALE/Qbert-v5", "ALE/SpaceInvaders-v5")


def _env_list(request: Request) -> tuple[str, ...]:
    return request.envs(*((SMALL_ENV,) if request.is_small else _PAPER_GAMES))


def _steps(request: Request) -> int:
    return _SMALL_STEPS if request.is_small else _PAPER_STEPS


def _simulators(request: Request) -> list[Training]:
    counts = (8, 32, 128) if request.is_small else (8, 16, 32, 64, 128, 256, 512)
    jobs = []
    for env in _env_list(request):
        for recipe in ("a2c", "ppo", "a3c", "appo"):
            for count in counts:
                settings: dict[str, Any] = {**ALONE, "steps": _steps(request), "num_envs": count}
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
    ends = smallest_and_largest(results)
    lost = [chart for chart, (_, few, _, many) in ends.items() if many < few - 0.1 * abs(few)]
    kept = [chart for chart in ends if chart not in lost]
    says = (
        f"At equal steps the largest number of simulators keeps at least 90% of the score of the smallest in "
        f"{len(kept)} of {len(ends)} cases" + (f", not in {', '.join(lost)}" if lost else "") + ". "
        "The paper finds that all methods learn with up to 128 and more simulators, with some loss of efficiency "
        "at the largest counts."
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


def _differs(request: Request) -> Sequence[str]:
    return small_env_differs(request, _SMALL_STEPS, "Atari games and 25 M steps")


SIMULATORS = Experiment(
    name="simulators",
    source=f"{STOOKE}, figure 2",
    shows="Scores at equal steps of A2C, PPO, A3C and APPO, by their number of simulators.",
    jobs=_simulators,
    draw=_draw_simulators,
    differs=lambda request: [
        *_differs(request),
        "PPO's batch is 2,048 steps, or 32 of each simulator where that is more; A2C's grows with the simulators.",
    ],
    seeds=(3, 3),
    hours=0.098,
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
    speeds = [
        f"{group} {number(sum(run.steps for run in runs) / max(sum(run.seconds for run in runs), 1e-9))}"
        for _, group, runs in results.groups()
    ]
    says = (
        f"Steps per second here: {', '.join(speeds)}. In the paper the asynchronous variants are faster than the "
        "synchronous ones on 8 GPUs, and all have learned Pong within 10 minutes."
    )
    return Exhibit(says, [drawing], [scores_table(results)])


MINUTES = Experiment(
    name="minutes",
    source=f"{STOOKE}, figure 4",
    shows="Scores over the time of training, of the policy gradient methods; one run at a time has all cores.",
    jobs=_minutes,
    draw=_draw_minutes,
    differs=lambda request: [*_differs(request), "The cores of this machine instead of 8 GPUs and 40 cores."],
    seeds=(2, 2),
    hours=0.056,
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
    cosine = "train/gradient_cosine"
    panels = {
        chart: {"full against half batch": line_over_x(groups, lambda run: run.metric(cosine))}
        for chart, groups in results.charts().items()
    }
    found = "; ".join(
        f"{chart}: {number(line.y[0])} with {line.x[0]:g} and {number(line.y[-1])} with {line.x[-1]:g} simulators"
        for chart, named in panels.items()
        for line in named.values()
    )
    says = (
        f"Cosine of the full and the half batch's gradients: {found}. 1/√2 = 0.707 means that the two halves have "
        "nothing in common. The paper measures about 0.707 with few simulators, and more with 256."
    )
    drawing = lines(
        "Saturation of the gradient estimate",
        "Mean cosine of the gradients of a batch and of half of it.",
        panels,
        "simulators",
        "cosine",
        logarithmic=True,
        references={"1/√2": 2**-0.5},
    )
    return Exhibit(says, [drawing], [scores_table(results)])


SATURATION = Experiment(
    name="saturation",
    source=f"{STOOKE}, section 5.5",
    shows="How alike the gradients of a batch and of its half are, by the number of simulators (A2C).",
    jobs=_saturation,
    draw=_draw_saturation,
    differs=_differs,
    seeds=(2, 2),
    hours=0.015,
)
