"""Stooke & Abbeel, section 5.5 and appendix C: a second learner on the first one's replay buffer."""

from __future__ import annotations

from typing import Any

from veldt.envs.source import ATARI_PREFIX
from veldt.experiments.catalogue.common import ALONE, REPLAY_NOT_KEPT, STOOKE, envs_of, seeded
from veldt.experiments.catalogue.verdicts import comparison, falls_short, keeps
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Line, Table, lines, mean_of_curves, number
from veldt.experiments.results import Results, interval

_PAIRS = ((64, 2048), (2048, 64), (256, 256))  # batch sizes of the first and the second learner
_FAILS = "first 64, second 2048"
_SMALL_STEPS, _PAPER_STEPS = 40_000, 10_000_000
_EVALUATIONS = 12
_SCORES = {"first learner": "eval/ep_return_mean", "second learner": "second/ep_return_mean"}
_NORMS = {
    "first learner": "second/first_weights_norm",
    "second learner": "second/weights_norm",
    "their distance": "second/distance",
}


def _jobs(request: Request) -> list[Training]:
    return [
        job
        for env in _envs(request)
        for first, second in _PAIRS
        for job in seeded(
            request,
            group=f"first {first}, second {second}",
            recipe="dqn",
            env=env,
            settings={**_settings(request, env), "batch_size": first, "second_batch_size": second},
        )
    ]


def _settings(request: Request, env: str) -> dict[str, Any]:
    """Returns the settings of all pairs: both learners use each step 8 times, from the same step on."""
    steps = _SMALL_STEPS if request.is_small else _PAPER_STEPS
    is_atari = env.startswith(ATARI_PREFIX)
    settings = {
        **ALONE,
        "steps": steps,
        "training_intensity": 8.0,
        "horizon": 0,
        "evaluate_every": steps // _EVALUATIONS,
    }
    if request.is_small or not is_atari:  # on Atari the recipe begins later than a small run ends
        settings["learning_starts"] = 2 * max(map(max, _PAIRS))
    if not request.is_small:
        return {**settings, **REPLAY_NOT_KEPT}
    return settings | {
        "evaluate_steps": 20_000 if is_atari else 4_000,
        "checkpoint_every": steps // _EVALUATIONS,
    }


def _envs(request: Request) -> tuple[str, ...]:
    return envs_of(request, "ALE/Breakout-v5")


def _draw(results: Results) -> Exhibit:
    ends = {
        f"{chart}, {group}": {label: [run.last(name) for run in runs] for label, name in _SCORES.items()}
        for chart, group, runs in results.groups()
    }
    table = [
        (chart, *(number(*interval(values)) for values in by_label.values()))
        for chart, by_label in ends.items()
    ]
    found = "; ".join(f"{chart}: {first} and {second}" for chart, first, second in table)
    says = comparison(
        f"Final scores of the first and the second learner: {found}" if found else "",
        "The paper finds that a second learner with a batch of 64 keeps up with a first one with 2,048 (here: it has "
        "nine tenths of its score or more), that a second one with 2,048 fails to learn beside a first one with 64 "
        "(here: it has less than that), and that two with 256 match (here: the second one keeps up)",
        {
            chart: (falls_short if chart.endswith(_FAILS) else keeps)(
                by_label["second learner"], by_label["first learner"], paired=True
            )
            for chart, by_label in ends.items()
        },
    )
    return Exhibit(
        says,
        [
            lines(
                "Scores of both learners",
                "Mean return of the episodes of an evaluation, mean of the seeds with its 95% bootstrap interval.",
                _curves(results, _SCORES),
                "agent steps",
                "return",
            ),
            lines(
                "Norms of both learners",
                "L2 norms of parameters and of their difference, means of the seeds with 95% bootstrap intervals.",
                _curves(results, _NORMS),
                "agent steps",
                "norm",
            ),
        ],
        [Table("Final scores of both", ("batch sizes", "first learner", "second learner"), table)],
    )


def _curves(results: Results, names: dict[str, str]) -> dict[str, dict[str, Line]]:
    """Returns the mean curves of metrics, by chart and label."""
    return {
        f"{chart}, {group}": {
            label: mean_of_curves([run.metric_curve(name) for run in runs]) for label, name in names.items()
        }
        for chart, group, runs in results.groups()
    }


def _differs(request: Request) -> list[str]:
    return [
        *(
            [f"{_SMALL_STEPS:,} steps of {', '.join(_envs(request))} instead of Breakout."]
            if request.is_small
            else [
                "One machine instead of the paper's.",
                "A run that was interrupted fills its replay buffer anew before both learn on.",
            ]
        ),
        *_step_sizes(request),
    ]


def _step_sizes(request: Request) -> list[str]:
    """Returns what is said of the learners' step sizes: for Atari games the recipe scales them with the batch size."""
    is_atari = [env.startswith(ATARI_PREFIX) for env in _envs(request)]
    scaled = (
        "Each learner has the step size of the recipe on Atari for its batch size (3.3e-4 for 64, 5.7e-4 for 256, "
        "1.5e-3 for 2,048); the paper has the fastest stable one for 2,048, without its value."
    )
    return [
        *([scaled] if any(is_atari) else []),
        *([] if all(is_atari) else ["Outside of Atari both have one step size, whatever their batch size."]),
    ]


SECONDARY_LEARNER = Experiment(
    name="secondary-learner",
    source=f"{STOOKE}, section 5.5 and appendix C",
    shows="Scores and parameter norms of a DQN learner, and of a second one that is trained on the first one's replay "
    "buffer, from the same initial weights, with as many uses of each step.",
    jobs=_jobs,
    draw=_draw,
    differs=_differs,
    seeds=(4, 2),
    hours=0.24,
)
