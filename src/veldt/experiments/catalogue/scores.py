"""Stooke & Abbeel, table 1 and figures 9 to 11, and Nair et al., tables 1 to 4: scores on Atari games."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np

from veldt.experiments.catalogue.atari_tables import (
    CONFIGURATIONS,
    GAMES,
    Scores,
    array_of,
    evaluation_table,
    known_scores,
    normalised_table,
    times_table,
)
from veldt.experiments.catalogue.common import (
    ALONE,
    ATARI,
    REPLAY_NOT_KEPT,
    STOOKE,
    cores_of,
    scores_table,
    seeded,
)
from veldt.experiments.catalogue.nair_figures import (
    ahead_table,
    gains_figure,
    hours_figure,
    human_starts_figure,
)
from veldt.experiments.catalogue.starts_tables import from_starts_table, starts_differ, starts_table
from veldt.experiments.catalogue.verdicts import NOTHING_YET, Verdict, at_least, comparison, over_games
from veldt.experiments.experiment import Experiment, Job, Request, Training, with_evaluations
from veldt.experiments.figures import Exhibit, Line, learning_curves, number
from veldt.experiments.planning.games import env_of_atari_game
from veldt.experiments.results import Results
from veldt.formatting import count, counted
from veldt.report import statistics
from veldt.report.published import published_curve

# The scaled configurations, with the one that each is to match; those of Q-learning are compared to others' papers.
_SCALED = {
    "A2C 128-env": "A2C 16-env",
    "A3C 3×16-env": "A2C 16-env",
    "PPO 128-env": "PPO 8-env",
    "APPO 8×8-env": "PPO 8-env",
}
_CORES = {"a3c-3x16": 3, "appo-8": 8, "gorila": 0}  # of other recipes one; 0 is all
_SMALL = ("A2C 16-env", "A2C 128-env")  # one that is scaled, and what it is to match
_SMALL_STEPS = 500_000  # 2 M frames
_SMALL_EVALUATION = 20_000  # steps; the recipes have 125,000


def _jobs(request: Request) -> list[Job]:
    envs = _envs(request)
    configurations = _configurations(request)
    lengths = {recipe: _length(request, recipe, envs[0]) for recipe in configurations.values()}
    jobs: list[Training] = []
    for env in envs:
        for label, recipe in configurations.items():
            cores = cores_of(recipe) if request.recipes else _CORES.get(recipe, 1)
            settings = {**ALONE, **lengths[recipe]}
            jobs += seeded(request, group=label, recipe=recipe, env=env, settings=settings, cores=cores)
    return with_evaluations(jobs, request)


def _envs(request: Request) -> tuple[str, ...]:
    games = ("Pong", "Breakout") if request.is_small else GAMES
    return request.envs(*(f"ALE/{game}-v5" for game in games))


def _length(request: Request, recipe: str, env: str) -> dict[str, Any]:
    """Returns the settings by which a run has its steps, as many in each game, and an evaluation at its end."""
    from veldt.recipes import find  # they import torch
    from veldt.recipes.overrides import build_config

    config = build_config(find(recipe).draft(env), {})
    steps, evaluation = config.run.steps, {}
    if request.is_small:
        steps, evaluation = _SMALL_STEPS, {"evaluate_steps": _SMALL_EVALUATION}
    kept = {} if config.replay is None else REPLAY_NOT_KEPT
    return {"steps": steps, "evaluate_every": steps, **evaluation, **kept}


def _configurations(request: Request) -> dict[str, str]:
    """Returns the recipe of each configuration that is trained."""
    if request.recipes:
        return {recipe: recipe for recipe in request.recipes}
    labels = _SMALL if request.is_small else tuple(CONFIGURATIONS)
    return {label: CONFIGURATIONS[label][0] for label in labels if CONFIGURATIONS[label][0]}


def _matches(scores: Scores) -> dict[str, Verdict]:
    """Returns whether scaled configurations keep nine tenths of the IQM of unscaled ones, over the games of both."""
    verdicts = {}
    for scaled, unscaled in _SCALED.items():
        names = sorted(scores.get(scaled, {}).keys() & scores.get(unscaled, {}).keys())
        if not names:
            continue
        both = (array_of(scores[scaled], names), array_of(scores[unscaled], names))
        times = 0.9 if statistics.interquartile_mean(both[1]) >= 0.0 else 1.1

        def kept(of: np.ndarray, others: np.ndarray, *, times: float = times) -> statistics.Value:
            return statistics.interquartile_mean(of) - times * statistics.interquartile_mean(others)

        verdicts[f"{scaled} against {unscaled}"] = at_least(over_games(kept, *both), 0.0)
    return verdicts


def _draw(results: Results) -> Exhibit:
    scores, left_out = known_scores(results)
    evaluated, _ = known_scores(results, attrgetter("evaluation"))
    request = results.request
    trained = "Scores are those of training, of the last tenth of the steps."
    tables = [
        normalised_table("Human-normalised scores", request, scores, left_out, trained),
        normalised_table(
            "Human-normalised scores of evaluation",
            request,
            evaluated,
            left_out,
            "Each run is evaluated at its end.",
        ),
        evaluation_table(results),
        *([from_starts_table(results)] if request.starts else []),
        starts_table(),
        times_table(results),
        ahead_table(results),
        scores_table(results),
    ]
    drawings = [
        learning_curves(results, references=_published(results)),
        human_starts_figure(results),
        gains_figure(results),
        hours_figure(results),
    ]
    return Exhibit(_says(request, scores), drawings, tables)


def _says(request: Request, scores: Scores) -> str:
    averages = "; ".join(
        f"{group} {number(float(statistics.mean(array_of(games, games))))} ({counted(len(games), 'game', 'games')})"
        for group, games in scores.items()
    )
    here = f"Average human-normalised scores of training: {averages}" if averages else ""
    if request.recipes:  # of which the paper says nothing
        return f"{here or NOTHING_YET}."
    verdicts = _matches(scores)
    if scores and not verdicts:
        verdicts = {"": Verdict(None, "no scaled configuration is trained beside its unscaled one")}
    return comparison(
        here,
        "The paper finds that scaled configurations (more simulators, larger batches) tend to match the unscaled ones "
        "over 49 games, after 25 M (policy gradients) or 50 M steps (here: nine tenths of the interquartile mean are "
        "kept)",
        verdicts,
    )


def _published(results: Results) -> dict[str, dict[str, Line]]:
    """Returns the published curve of each game over the steps that are made here."""
    curves: dict[str, dict[str, Line]] = {}
    for game, groups in results.charts().items():
        steps, scores = published_curve(
            "Rainbow", game, max(run.steps for runs in groups.values() for run in runs)
        )
        if steps:
            curves[game] = {"Dopamine's Rainbow (sticky actions)": Line(steps, scores)}
    return curves


def _differs(request: Request) -> list[str]:
    sentences = []
    if request.recipes:
        sentences.append(f"The recipes {', '.join(request.recipes)} instead of the paper's configurations.")
    elif request.is_small:
        sentences.append("Two games and two configurations.")
    if request.is_small:
        sentences.append(f"{_SMALL_STEPS:,} steps, of which little is learned.")
    elif not request.recipes:
        sentences.append("Gorila is trained with 8 learners on one machine instead of 100.")
    steps = {recipe: _length(request, recipe, _envs(request)[0])["steps"] for recipe in request.recipes}
    if len(set(steps.values())) > 1:
        lengths = ", ".join(f"{recipe} {count(each)}" for recipe, each in steps.items())
        sentences.append(f"The recipes are compared after different numbers of steps: {lengths}.")
    evaluation = f" (of {_SMALL_EVALUATION:,} steps)" if request.is_small else ""
    return [
        *sentences,
        "The verdict and the curves are of the scores of training, with its exploration; beside them is an evaluation "
        f"at the end of each run{evaluation}, not the best one during training.",
        *starts_differ(request, _envs(request)),
    ]


SCORES = Experiment(
    name="scores",
    source=f"{STOOKE}, table 1 and figures 9 to 11; Nair et al. 2015 (Gorila), tables 1 to 4 and figures 3 to 5",
    shows="Scores on Atari games of baseline and scaled configurations, in training and evaluated (with --starts also "
    "from recorded starts), and published ones.",
    jobs=_jobs,
    draw=_draw,
    differs=_differs,
    hours=0.5,
    seeds=(3, 2),
    needs=ATARI,
    env_of=env_of_atari_game,
    normalises=True,
    compares_recipes=True,
    takes_starts=True,
)
