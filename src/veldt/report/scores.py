"""The section on scores: what the runs of each recipe reach on an env, how certain that is, and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from veldt import formatting
from veldt.report.charts import SERIES_COLOURS
from veldt.report.data import RunData
from veldt.report.groups import Environment, Group
from veldt.report.normalising import human_normalised, is_normalisable
from veldt.report.statistics import (
    interquartile_mean,
    mean,
    median_of_runs,
    probability_of_improvement,
    stratified_interval,
)
from veldt.runs.episodes import WINDOW

REPEATS = 2000
_STATISTICS = (("Mean", mean), ("Median", median_of_runs), ("IQM", interquartile_mean))


def score_section(environment: Environment, target: float | None) -> str:
    """A table of each group's scores with their intervals, and which group is better; "" for a single run.

    Args:
        environment: the runs on one env.
        target: the score for which steps and time are shown; None: the return at which all runs were to stop, if it
            is the same.
    """
    if len(environment.runs) < 2:
        return ""
    target = common_target(environment) if target is None else target
    rows = [_row(colour, group, environment, target) for colour, group in enumerate(environment.groups)]
    heads = ["Runs", *(name for name, _ in _STATISTICS)]
    if has_human_scores(environment):
        heads.append("Human-normalised mean")
    if target is not None:
        score = f"{target:,.10g}"
        heads += [f"Steps to {score}", f"Time to {score}"]
    head = "<th></th>" + "".join(f'<th class="number">{escape(name)}</th>' for name in heads)
    body = f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
    note = (
        f"A run's score is its mean return of the last {WINDOW} episodes. In brackets: the 95% bootstrap interval over "
        "runs; a single run has none."
    )
    improvement = improvement_table([(group.name, scores_of(group)[:, None]) for group in environment.groups])
    return f'<section><h2>Scores</h2><p class="note">{note}</p>{body}{improvement}</section>'


def scores_of(group: Group) -> np.ndarray:
    """The scores of the runs of a group that have one: mean return of the last 100 episodes; float64 [runs]."""
    scores = np.array([score_of(run) for run in group.runs], np.float64)
    return scores[np.isfinite(scores)]


def score_of(run: RunData) -> float:
    """The mean return of a run's last 100 episodes; NaN before the first episode has finished."""
    return run.metric("ep_return_mean", "rollout/ep_return_mean")


def common_target(environment: Environment) -> float | None:
    """The return at which the runs were to stop (`--until`), if they have the same or none; None if none has any."""
    targets = {formatting.as_float(run.settings().get("run.until")) for run in environment.runs}
    known = [target for target in targets if np.isfinite(target)]
    return known[0] if len(known) == 1 else None


def with_interval(
    statistic: Callable[..., Any], *scores: np.ndarray, form: Callable[[Any], str] = formatting.decimal
) -> str:
    """The statistic as text, with its interval where there are two runs or more; an en dash without any."""
    if any(len(one) == 0 for one in scores):
        return formatting.MISSING
    value = form(statistic(*scores))
    if any(len(one) < 2 for one in scores):
        return value
    low, high = stratified_interval(statistic, *scores, repeats=REPEATS, seed=0)
    return f"{value} [{form(low)}, {form(high)}]"


def improvement_table(groups: Sequence[tuple[str, np.ndarray]]) -> str:
    """How probably each group beats each other, for groups of two runs or more; "" if there are not two of them.

    Args:
        groups: names, and scores [runs, tasks] on the same tasks.
    """
    several = [(name, scores) for name, scores in groups if len(scores) > 1]
    if len(several) < 2:
        return ""
    head = "<th></th>" + "".join(f'<th class="number">{escape(name)}</th>' for name, _ in several)
    rows = []
    for name, scores in several:
        cells = [
            formatting.MISSING
            if other is scores
            else with_interval(probability_of_improvement, scores, other, form=formatting.percent)
            for _, other in several
        ]
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        rows.append(f'<tr><td class="nowrap">{escape(name)}</td>{numbers}</tr>')
    return (
        '<div class="improvement"><h3>Probability of improvement</h3><p class="note">That a run of the row has a '
        "higher score than a run of the column; a tie counts as half.</p>"
        f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div></div>'
    )


def has_human_scores(environment: Environment) -> bool:
    """Whether scores on the env can be normalised: an Atari game with published human and random scores."""
    return environment.name.startswith("ALE/") and is_normalisable(environment.name)


def normalised_scores(group: Group, environment: Environment) -> np.ndarray:
    """The human-normalised scores of `scores_of`; float64 [runs]."""
    return np.array([human_normalised(score, environment.name) for score in scores_of(group)], np.float64)


def _row(colour: int, group: Group, environment: Environment, target: float | None) -> str:
    scores = scores_of(group)[:, None]
    cells = [_number_of_runs(group), *(with_interval(statistic, scores) for _, statistic in _STATISTICS)]
    if has_human_scores(environment):
        cells.append(with_interval(mean, normalised_scores(group, environment)[:, None]))
    if target is not None:
        cells += _efforts(group, target)
    mark = f'<i style="background:var(--series-{colour % SERIES_COLOURS})"></i>'
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return f'<tr><td class="nowrap">{mark}{escape(group.name)}</td>{numbers}</tr>'


def _efforts(group: Group, target: float) -> list[str]:
    """Steps and time to the target: means over the runs if all reached it, else how many did."""
    reached = [(run, steps) for run in group.runs if (steps := run.steps_to(target)) is not None]
    if len(reached) < len(group.runs):
        return [f"{len(reached)} of {len(group.runs)} reached it", formatting.MISSING]
    effort = np.array([(steps, run.seconds_at(np.array([steps]))[0]) for run, steps in reached])
    return [
        with_interval(mean, effort[:, :1], form=formatting.count),
        with_interval(mean, effort[:, 1:], form=formatting.duration),
    ]


def _number_of_runs(group: Group) -> str:
    """How many runs have a score, and how many of them are not at their end."""
    known = [run for run in group.runs if np.isfinite(score_of(run))]
    unfinished = sum(run.status.kind != "done" for run in known)
    text = str(len(known)) if len(known) == len(group.runs) else f"{len(known)} of {len(group.runs)}"
    return f"{text}, {unfinished} unfinished" if unfinished else text
