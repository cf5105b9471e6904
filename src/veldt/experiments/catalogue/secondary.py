"""Stooke & Abbeel, section 5.5 and appendix C: a second learner on the first one's replay buffer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from veldt.envs.source import ATARI_PREFIX
from veldt.experiments.catalogue.common import SMALL_ENV, STOOKE
from veldt.experiments.catalogue.verdicts import comparison, falls_short, keeps
from veldt.experiments.experiment import Experiment, Measurement, Request, Training
from veldt.experiments.figures import Exhibit, Line, Table, lines, mean_of_curves, number
from veldt.experiments.results import Results, interval

_PAIRS = ((64, 2048), (2048, 64), (256, 256))  # batch sizes of the first and the second learner
_FAILS = "first 64, second 2048"
_SMALL_STEPS, _PAPER_STEPS = 40_000, 10_000_000


def _jobs(request: Request) -> list[Measurement]:
    steps = _SMALL_STEPS if request.is_small else _PAPER_STEPS
    settings = {"training_intensity": 8.0, "horizon": 0}
    return [
        Measurement(
            group=f"first {first}, second {second}",
            module="veldt.experiments.secondary_learner",
            words=(
                *("--env", env, "--steps", str(steps), "--primary", str(first), "--secondary", str(second)),
                *("--seed", str(seed), "--settings", json.dumps(settings)),
            ),
            seconds=steps / (500.0 if request.is_small else 100.0),
            x=seed,
            panel=env,
            cores=1,
            trains=Training(
                group="", recipe="dqn", env=env, seed=seed, settings={"steps": steps, **settings}
            ),
        )
        for env in _envs(request)
        for first, second in _PAIRS
        for seed in request.seed_range
    ]


def _envs(request: Request) -> tuple[str, ...]:
    return request.envs(SMALL_ENV if request.is_small else "ALE/Breakout-v5")


Panels = dict[str, dict[str, list[tuple[np.ndarray, np.ndarray]]]]  # curves of each seed, by chart and label


def _add(panels: Panels, chart: str, label: str, rows: Sequence[Mapping[str, float]], key: str) -> None:
    """Adds the curve of `key` over the steps of a measurement's rows."""
    x, y = (np.array([row[name] for row in rows]) for name in ("step", key))
    panels.setdefault(chart, {}).setdefault(label, []).append((x, y))


def _means(panels: Panels) -> dict[str, dict[str, Line]]:
    return {
        chart: {label: mean_of_curves(curves) for label, curves in named.items()}
        for chart, named in panels.items()
    }


def _draw(results: Results) -> Exhibit:
    scores: Panels = {}
    norms: Panels = {}
    ends: dict[str, dict[str, list[float]]] = {}
    for measured in results.measured:
        rows, chart = measured.values["rows"], f"{measured.job.panel}, {measured.job.group}"
        for name, label in (("primary", "first"), ("secondary", "second")):
            _add(scores, chart, f"{label} learner", rows, f"{name}_score")
            _add(norms, chart, f"{label} learner", rows, f"{name}_norm")
            ends.setdefault(chart, {}).setdefault(label, []).append(rows[-1][f"{name}_score"])
        _add(norms, chart, "their distance", rows, "distance")
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
                by_label["second"], by_label["first"], paired=True
            )
            for chart, by_label in ends.items()
        },
    )
    return Exhibit(
        says,
        [
            lines(
                "Scores of both learners",
                "Mean return of 8 evaluated episodes, mean of the seeds with its 95% bootstrap interval.",
                _means(scores),
                "agent steps",
                "return",
            ),
            lines(
                "Norms of both learners",
                "L2 norms of parameters and of their difference, means of the seeds with 95% bootstrap intervals.",
                _means(norms),
                "agent steps",
                "norm",
            ),
        ],
        [Table("Final scores of both", ("batch sizes", "first learner", "second learner"), table)],
    )


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
    shows="Scores and parameter norms of a DQN learner, and of a second one trained on the first one's replay buffer.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        f"{_SMALL_STEPS:,} steps of {', '.join(_envs(request))} instead of Breakout."
        if request.is_small
        else "One machine instead of the paper's.",
        *_step_sizes(request),
        "A measurement that is interrupted begins again.",
    ],
    seeds=(4, 2),
    hours=0.058,
)
