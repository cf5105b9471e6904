"""The section on scores over several envs: normalised aggregates, performance profiles, and which method is better."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from veldt.report.charts import SERIES_COLOURS, Series, line_chart
from veldt.report.groups import Environment, Group
from veldt.report.scores import (
    REPEATS,
    has_human_scores,
    improvement_table,
    normalised_scores,
    scores_of,
    with_interval,
)
from veldt.report.statistics import (
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    performance_profile,
    stratified_interval,
)

_STATISTICS = (
    ("Mean", mean),
    ("Median", median),
    ("IQM", interquartile_mean),
    ("Optimality gap", optimality_gap),
)
_TAUS = 200  # points of a performance profile


@dataclass(frozen=True)
class Method:
    """The scores of one method on all envs: raw, and human-normalised (None where a game has no human score).

    float64 [runs, envs] each.
    """

    name: str
    scores: np.ndarray
    normalised: np.ndarray | None


def aggregate_section(environments: list[Environment]) -> str:
    """Aggregates over all envs of the methods that have as many runs on each; "" for a single env."""
    if len(environments) < 2:
        return ""
    methods, left_out = methods_on_all(environments)
    lacking = [one.name for one in environments if not has_human_scores(one)]
    parts = [f'<p class="note">{escape(sentence)}</p>' for sentence in left_out]
    if lacking:
        parts.append(
            '<p class="note">No aggregates: there are no published human and random scores of '
            f"{escape(_listed(lacking))}, and raw returns of different environments do not compare.</p>"
        )
    elif methods:
        parts += [_table(methods), _profiles(methods)]
    parts.append(improvement_table([(one.name, one.scores) for one in methods]))
    return f"<section><h2>Over {len(environments)} environments</h2>{''.join(parts)}</section>"


def methods_on_all(environments: list[Environment]) -> tuple[list[Method], list[str]]:
    """The methods that have the same number of scores on each env, and why each other is left out."""
    methods, left_out = [], []
    for key, name in _names(environments).items():
        groups = [[group for group in one.groups if group.method == key] for one in environments]
        missing = [one.name for one, found in zip(environments, groups, strict=True) if not found]
        counts = [len(scores_of(found[0])) if len(found) == 1 else 0 for found in groups]
        if missing:
            left_out.append(f"{name} is left out: it has no run on {_listed(missing)}.")
        elif any(len(found) > 1 for found in groups):
            left_out.append(f"{name} is left out: several of its runs on an environment have the same seed.")
        elif len(set(counts)) > 1 or counts[0] == 0:
            numbers = ", ".join(
                f"{count} on {one.name}" for count, one in zip(counts, environments, strict=True)
            )
            left_out.append(
                f"{name} is left out: it needs as many scores on each environment, and has {numbers}."
            )
        else:
            own = [(found[0], one) for found, one in zip(groups, environments, strict=True)]
            normalised = None
            if all(has_human_scores(one) for one in environments):
                normalised = np.stack([normalised_scores(group, one) for group, one in own], axis=1)
            methods.append(Method(name, np.stack([scores_of(group) for group, _ in own], axis=1), normalised))
    return methods, left_out


def _names(environments: list[Environment]) -> dict[str, str]:
    """The name of each method: its recipe, or the label of its first group if methods share the recipe."""
    groups: dict[str, Group] = {}
    for group in (group for one in environments for group in one.groups):
        groups.setdefault(group.method, group)
    recipes = {
        key: group.runs[0].setting("recipe") or group.runs[0].setting("algorithm") or group.name
        for key, group in groups.items()
    }
    shared = list(recipes.values())
    return {key: recipe if shared.count(recipe) == 1 else groups[key].name for key, recipe in recipes.items()}


def _table(methods: list[Method]) -> str:
    head = '<th></th><th class="number">Runs</th>'
    head += "".join(f'<th class="number">{name}</th>' for name, _ in _STATISTICS)
    rows = []
    for colour, method in enumerate(methods):
        assert method.normalised is not None
        runs, tasks = method.scores.shape
        cells = [f"{runs} × {tasks}", *(with_interval(one, method.normalised) for _, one in _STATISTICS)]
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        rows.append(f'<tr><td class="nowrap">{_mark(colour)}{escape(method.name)}</td>{numbers}</tr>')
    note = (
        "Human-normalised scores: 0 is a random policy's, 1 a human's (no-op starts). In brackets: the 95% bootstrap "
        "interval over runs, stratified by environment."
    )
    return (
        f'<p class="note">{note}</p><div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
    )


def _profiles(methods: list[Method]) -> str:
    """A chart of the share of runs above each normalised score."""
    everything = np.concatenate(
        [method.normalised.ravel() for method in methods if method.normalised is not None]
    )
    taus = np.linspace(min(0.0, everything.min()), max(1.0, everything.max()), _TAUS)
    series = []
    for colour, method in enumerate(methods):
        assert method.normalised is not None
        band = None
        if len(method.normalised) > 1:
            ends = stratified_interval(
                lambda scores: performance_profile(scores, taus), method.normalised, repeats=REPEATS, seed=0
            )
            band = (taus, np.asarray(ends[0]), np.asarray(ends[1]))
        series.append(Series(colour, (taus, performance_profile(method.normalised, taus)), band=band))
    chart = line_chart(series, "human-normalised score", 528, 280, "performance-profiles")
    title = "<h3>Performance profiles<small>share of runs with a higher score</small></h3>"
    return f"<figure>{title}{chart}</figure>"


def _mark(colour: int) -> str:
    return f'<i style="background:var(--series-{colour % SERIES_COLOURS})"></i>'


def _listed(names: list[str]) -> str:
    return ", ".join(name or "an unknown environment" for name in names)
