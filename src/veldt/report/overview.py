"""The top of the report: what was trained, how it ended, and the main numbers."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

from veldt import formatting
from veldt.report.charts import SERIES_COLOURS
from veldt.report.data import RunData
from veldt.report.groups import Environment
from veldt.report.links import linked_name


def title(runs: list[RunData]) -> str:
    """The title as plain text."""
    what = _what(runs)
    return what if len(runs) == 1 else f"{len(runs)} runs: {what}" if what else f"{len(runs)} runs"


def heading(runs: list[RunData]) -> str:
    """The header: the title and, for a single run, its name, state, seed and date."""
    if len(runs) > 1:
        # The table shows the progress of each run.
        statuses = [run.status.text.partition(" at ")[0] for run in runs]
        counted = [f"{status}: {statuses.count(status)}" for status in dict.fromkeys(statuses)]
        parts = [f"{len(runs)} runs", *counted]
        return f"<header><h1>{_heading(runs)}</h1>{_lead([escape(part) for part in parts])}</header>"
    run = runs[0]
    known = [
        f'<span class="state {run.status.kind}">{run.status.text.capitalize()}</span>',
        f"<span>{escape(run.name)}</span>",
    ]
    for key in ("algorithm", "system", "seed", "device", "precision"):
        if run.setting(key) and run.setting(key) != run.setting("recipe"):
            known.append(f"<span>{key} {escape(run.setting(key))}</span>")
    if created := run.config.get("created"):
        known.append(f"<span>{escape(str(created)[:16].replace('T', ' '))}</span>")
    return f"<header><h1>{_heading(runs)}</h1>{_lead(known)}</header>"


def headline(environments: list[Environment], out: Path) -> str:
    """The main numbers: large for a single run, for several a table with links to the reports of each.

    `out` is the file of the page.
    """
    runs = [run for environment in environments for run in environment.runs]
    return _main_numbers(runs[0]) if len(runs) == 1 else _table(environments, out)


def _lead(parts: list[str]) -> str:
    return f'<p class="lead">{"".join(part if part.startswith("<") else f"<span>{part}</span>" for part in parts)}</p>'


def _what(runs: list[RunData]) -> str:
    recipes = list(dict.fromkeys(run.setting("recipe") or run.setting("algorithm") for run in runs))
    environments = list(dict.fromkeys(run.setting("env") for run in runs))
    names = (", ".join(filter(None, recipes)), ", ".join(filter(None, environments)))
    return " on ".join(filter(None, names)) or (runs[0].name if len(runs) == 1 else "")


def _heading(runs: list[RunData]) -> str:
    left, on, right = (_what(runs) or f"{len(runs)} runs").partition(" on ")
    return f"{escape(left)} <span>on</span> {escape(right)}" if on else escape(left)


def _main_numbers(run: RunData) -> str:
    steps, frames = run.metric("steps", "step"), run.metric("frames")
    lag = run.metric("policy_lag_mean", "train/policy_lag_mean")
    metrics = [
        (
            "Return, last 100 episodes",
            formatting.decimal(run.metric("ep_return_mean", "rollout/ep_return_mean")),
            "",
        ),
        (
            "Agent steps",
            formatting.count(steps),
            f"{formatting.count(frames)} frames" if frames > steps else "",
        ),
        ("Time", formatting.duration(run.metric("seconds")), _solved(run)),
        (
            "Steps per second",
            formatting.whole(run.metric("steps_per_second", "time/steps_per_second")),
            _frames_per_second(run),
        ),
        ("Episodes", formatting.whole(run.metric("episodes", "rollout/episodes")), ""),
    ]
    if math.isfinite(lag):
        metrics.append(("Policy lag", formatting.decimal(lag), "updates behind, mean"))
    items = (
        f"<div><dt>{name}</dt><dd>{escape(value)}{f'<small>{escape(below)}</small>' if below else ''}</dd></div>"
        for name, value, below in metrics
    )
    return f'<dl class="metrics">{"".join(items)}</dl>'


def _solved(run: RunData) -> str:
    seconds = formatting.as_float(run.summary.get("solved_at_seconds"))
    return f"solved after {formatting.duration(seconds)}" if math.isfinite(seconds) else ""


def _frames_per_second(run: RunData) -> str:
    frames, steps, rate = (
        run.metric("frames"),
        run.metric("steps", "step"),
        run.metric("steps_per_second", "time/steps_per_second"),
    )
    return f"{formatting.whole(rate * frames / steps)} frames/s" if frames > steps > 0 else ""


def _table(environments: list[Environment], out: Path) -> str:
    runs = [run for environment in environments for run in environment.runs]
    # Columns that are empty in every row are left out.
    several, target = len(environments) > 1, any(_has_target(run) for run in runs)
    texts = ("Run", *(("Environment",) if several else ()), "State")
    numbers = (
        "Seed",
        "Return",
        *(("Solved after",) if target else ()),
        "Steps",
        "Episodes",
        "Time",
        "Steps/s",
    )
    head = "".join(f"<th>{name}</th>" for name in texts)
    head += "".join(f'<th class="number">{name}</th>' for name in numbers)
    rows = []
    for environment in environments:
        for colour, group in enumerate(environment.groups):
            for run in group.runs:
                mark = f'<i style="background:var(--series-{colour % SERIES_COLOURS})"></i>'
                cells = [
                    f"{mark}{linked_name(run, out)}",
                    f'<span class="state {run.status.kind}">{run.status.text}</span>',
                ]
                if several:
                    cells.insert(1, escape(run.setting("env") or formatting.MISSING))
                shown = "".join(f'<td class="nowrap">{cell}</td>' for cell in cells)
                shown += "".join(f'<td class="number">{number}</td>' for number in _row(run, target))
                rows.append(f"<tr>{shown}</tr>")
    return f'<section><div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div></section>'


def _row(run: RunData, target: bool) -> list[str]:
    """The numbers of one run in the table."""
    return [
        escape(run.setting("seed") or formatting.MISSING),
        formatting.decimal(run.metric("ep_return_mean", "rollout/ep_return_mean")),
        *([formatting.duration(run.summary.get("solved_at_seconds"))] if target else []),
        formatting.count(run.metric("steps", "step")),
        formatting.whole(run.metric("episodes", "rollout/episodes")),
        formatting.duration(run.metric("seconds")),
        formatting.whole(run.metric("steps_per_second", "time/steps_per_second")),
    ]


def _has_target(run: RunData) -> bool:
    return run.settings().get("run.until") is not None or run.summary.get("solved_at_seconds") is not None
