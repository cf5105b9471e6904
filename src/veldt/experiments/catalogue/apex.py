"""Ape-X, figures 6 and 7: copies of steps in the replay buffer, and the number of different ε."""

from __future__ import annotations

from typing import Any

from veldt.experiments.catalogue.common import (
    ALONE,
    REPLAY_NOT_KEPT,
    envs_of,
    scores_in_words,
    scores_of,
    scores_table,
    seeded,
    small_env_differs,
)
from veldt.experiments.catalogue.verdicts import comparison, equals
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, learning_curves
from veldt.experiments.results import Results

_HORGAN = "Horgan et al. 2018 (Ape-X)"
# With 60,000 steps a quarter of the runs on CartPole end before they have learned.
_SMALL_STEPS, _PAPER_STEPS = 200_000, 50_000_000
_ONE_EACH = "one ε for each env"


def _trainings(request: Request, group: str, env: str, settings: dict[str, Any]) -> list[Training]:
    steps = _SMALL_STEPS if request.is_small else _PAPER_STEPS
    sizes = {"actors": 2, "num_envs": 16} if request.is_small else REPLAY_NOT_KEPT
    return seeded(
        request,
        group=group,
        recipe="apex-dqn",
        env=env,
        settings={**ALONE, "steps": steps, **sizes, **settings},
        cores=0,
    )


def _envs(request: Request) -> tuple[str, ...]:
    return envs_of(request, "ALE/Breakout-v5")


def _replicas(request: Request) -> list[Training]:
    return [
        job
        for env in _envs(request)
        for copies in (1, 2, 8)
        for job in _trainings(request, f"k = {copies}", env, {"insertions": copies})
    ]


def _epsilons(request: Request) -> list[Training]:
    return [
        job
        for env in _envs(request)
        for name, rungs in ((_ONE_EACH, 0), ("6 different ε", 6))
        for job in _trainings(request, name, env, {"exploration": "ladder", "ladder_rungs": rungs})
    ]


def _equal_scores(results: Results, baseline: str, paper: str) -> Exhibit:
    """Shows the scores, and whether those of each group are equal to those of the group `baseline`."""
    verdicts = {}
    for chart, groups in results.charts().items():
        expected = scores_of(groups.get(baseline, []))
        for group, runs in groups.items():
            if group != baseline:
                verdicts[f"{group} on {chart}"] = equals(scores_of(runs), expected)
    says = comparison(scores_in_words(results), paper, verdicts)
    return Exhibit(says, [learning_curves(results)], [scores_table(results)])


def _draw_replicas(results: Results) -> Exhibit:
    return _equal_scores(
        results,
        "k = 1",
        "The paper finds little difference between numbers k of copies with the same number of actors (here: within a "
        "tenth of the score with k = 1), so that a more recent buffer does not explain why more actors help",
    )


def _draw_epsilons(results: Results) -> Exhibit:
    return _equal_scores(
        results,
        _ONE_EACH,
        "The paper finds little difference between an ε for each actor and 6 different ones (here: within a tenth of "
        "the score)",
    )


REPLICAS = Experiment(
    name="replicas",
    source=f"{_HORGAN}, figure 6",
    shows="Scores of Ape-X DQN with each step inserted k times into the replay buffer.",
    jobs=_replicas,
    draw=_draw_replicas,
    differs=lambda request: [
        *small_env_differs(request, _SMALL_STEPS, "Atari games by up to 256 actors"),
        *(
            []
            if request.is_small
            else ["32 envs for the figure's 32 actors, in as many processes as the cores allow."]
        ),
        "Numbers k of copies alone: the figure also has more actors (256 beside 32), which make more steps in the same "
        "time, where all runs here have the same number of steps and of actors.",
    ],
    seeds=(3, 3),
    hours=0.1,
)

EPSILONS = Experiment(
    name="epsilons",
    source=f"{_HORGAN}, figure 7",
    shows="Scores of Ape-X DQN with 6 different values of ε against one for each environment.",
    jobs=_epsilons,
    draw=_draw_epsilons,
    differs=lambda request: [
        *small_env_differs(request, _SMALL_STEPS, "Atari games by 360 actors"),
        *([] if request.is_small else ["32 envs instead of 360 actors."]),
        "One ε for each env, of which an actor has several, instead of one for each actor.",
    ],
    seeds=(3, 3),
    hours=0.08,
)
