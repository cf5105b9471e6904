"""Stooke & Abbeel, figure 3 and appendix D: Q-learning with large batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veldt.experiments.catalogue.common import (
    ALONE,
    SMALL_ENV,
    STOOKE,
    replay_settings,
    scores_over_x,
    scores_table,
    seeded,
    small_env_differs,
    smallest_and_largest,
)
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Line, learning_curves, lines, number
from veldt.experiments.results import Results

_SMALL_STEPS, _PAPER_STEPS = 60_000, 50_000_000
_PAPER_GAMES = ("ALE/Breakout-v5", "ALE/Pong-v5", "ALE/Qbert-v5", "ALE/Seaquest-v5")
_RMSPROP_RATES = {32: 2.5e-4, 128: 5e-4, 512: 7.5e-4, 1024: 1.5e-3, 2048: 1.5e-3}  # A.3 for 32, 512 and 1,024


def _settings(request: Request, env: str, batch: int) -> dict[str, Any]:
    """Returns the settings of all runs with this batch: each step is used 8 times, as in the paper."""
    settings = {
        **ALONE,
        "steps": _SMALL_STEPS if request.is_small else _PAPER_STEPS,
        **replay_settings(env, batch),
    }
    settings |= {"training_intensity": 8.0, "horizon": 0, "checkpoint_replay": "none"}
    return settings


def _batches(request: Request) -> list[Training]:
    sizes = (32, 128, 512, 2048) if request.is_small else (32, 128, 512, 1024, 2048)
    jobs = []
    for env in request.envs(*((SMALL_ENV,) if request.is_small else _PAPER_GAMES)):
        for recipe in ("dqn", "c51", "rainbow"):
            for batch in sizes:
                settings = _settings(request, env, batch)
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
    says = (
        "; ".join(
            f"{chart}: {number(few)} with a batch of {first:g}, {number(many)} with {last:g}"
            for chart, (first, few, last, many) in smallest_and_largest(results).items()
        )
        or "No run is done yet"
    )
    says += (
        ". The paper finds DQN and ε-Rainbow consistent up to 512, and Categorical DQN up to 2,048, at equal use of "
        "each step (8 times), so that a batch 64 times as large means 64 times fewer updates."
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


def _differs(request: Request) -> Sequence[str]:
    return small_env_differs(request, _SMALL_STEPS, "Atari games and 50 M steps")


BATCHES = Experiment(
    name="batches",
    source=f"{STOOKE}, figure 3",
    shows="Scores at equal steps of DQN, Categorical DQN and ε-Rainbow, by their batch size.",
    jobs=_batches,
    draw=_draw_batches,
    differs=lambda request: [
        *_differs(request),
        *(
            ["Adam with one step size for all batches, where the paper's DQN has RMSProp with one for each."]
            if request.is_small
            else []
        ),
    ],
    seeds=(3, 2),
    hours=0.13,
)


def _norms(request: Request) -> list[Training]:
    sizes = (64, 256, 1024)
    jobs = []
    for env in request.envs(SMALL_ENV if request.is_small else "ALE/Qbert-v5"):
        for optimiser in ("adam", "rmsprop"):
            for batch in sizes:
                # Appendix D: RMSProp needs steps 20 times as large from batches of 64 to 1,024; Adam the same for all.
                rate = 4.2e-4 if optimiser == "adam" else {64: 2.5e-4, 256: 1e-3, 1024: 5e-3}[batch]
                settings = _settings(request, env, batch) | {
                    "optimiser": optimiser,
                    "learning_rate": rate,
                    "log_norms": True,
                }
                jobs += seeded(
                    request,
                    group=f"batch {batch}, step size {rate:g}",
                    recipe="c51",
                    env=env,
                    settings=settings,
                    panel=f"{optimiser} on {env}",
                    x=batch,
                )
    return jobs


_QUANTITIES = {"weights": "norm of weights", "gradient": "norm of the gradient", "step": "norm of a step"}


def _draw_norms(results: Results) -> Exhibit:
    drawings = [learning_curves(results)]
    for quantity, vertical in _QUANTITIES.items():
        panels: dict[str, dict[str, Line]] = {}
        for chart, group, runs in results.groups():
            for weight in dict.fromkeys(runs[0].layers[:1] + runs[0].layers[-1:]):
                name = f"norms/{quantity}/{weight}"
                rows = [row for row in runs[0].rows if name in row]
                line = Line([row["step"] for row in rows], [row[name] for row in rows])
                panels.setdefault(f"{chart}, {weight}", {})[group] = line
        drawings.append(
            lines(
                f"Norms - {quantity}",
                f"L2 norms during the run of seed 1: {vertical}.",
                panels,
                "agent steps",
                vertical,
            )
        )
    return Exhibit(_say_norms(results), drawings, [scores_table(results)])


def _say_norms(results: Results) -> str:
    parts = []
    for chart, groups in results.charts().items():
        norms = [
            [row["norms/weights"] for row in runs[0].rows if "norms/weights" in row]
            for runs in groups.values()
        ]
        ends = [of_run[-1] for of_run in norms if of_run]
        if ends:
            parts.append(
                f"{chart}: the norm of all weights ends between {number(min(ends))} and {number(max(ends))}"
            )
    return (
        ("; ".join(parts) or "No run is done yet")
        + ". The paper finds the norms of Adam's weights close together for all batch sizes at one step "
        "size, and RMSProp in need of a step size for each; larger batches have smaller gradients."
    )


NORMS = Experiment(
    name="norms",
    source=f"{STOOKE}, appendix D, figure 8",
    shows="Norms of weights, gradients and steps of the first and the last layer, by batch size: Adam and RMSProp.",
    jobs=_norms,
    draw=_draw_norms,
    differs=_differs,
    seeds=(1, 2),
    hours=0.043,
)
