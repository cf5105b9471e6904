"""The section on speed: where the time went, how much was done per second, and how stale the acting policy was."""

from __future__ import annotations

from html import escape

from veldt.runs import formatting
from veldt.runs.report.curves import legend, small_chart, time_axis
from veldt.runs.report.data import RunData
from veldt.runs.report.groups import Environment
from veldt.runs.stages import STAGES


def speed_section(environment: Environment) -> str:
    """Bars of the time by stage, one a run, then throughput and policy lag over time; "" if nothing is known."""
    runs = environment.runs
    axis = time_axis(environment)
    charts = "".join(small_chart(key, environment, axis) for key in ("sps", "policy_lag_mean"))
    bars = _bars([run for run in runs if run.stage_seconds()], len(runs) == 1)
    if not bars and not charts:
        return ""
    grid = f'{legend(environment.groups)}<div class="grid">{charts}</div>' if charts else ""
    return f'<section class="speed"><h2>Where the time went</h2>{bars}{grid}</section>'


def _bars(runs: list[RunData], single: bool) -> str:
    if not runs:
        return ""
    stages = list(dict.fromkeys(stage for run in runs for stage in run.stage_seconds()))
    totals = {stage: sum(run.stage_seconds().get(stage, 0.0) for run in runs) for stage in stages}
    items = []
    for stage in stages:
        share = formatting.percent(totals[stage] / sum(totals.values()))
        time = f", {formatting.duration(totals[stage])}" if single else ""
        items.append(
            f'<li><i style="background:{_colour(stage)}"></i>{escape(stage)}<span>{share}{time}</span></li>'
        )
    rows = "".join(("" if single else f"<span>{escape(run.name)}</span>") + _bar(run) for run in runs)
    shape = "bars one" if single else "bars"
    return f'<ul class="legend stages">{"".join(items)}</ul><div class="{shape}">{rows}</div>'


def _bar(run: RunData) -> str:
    seconds = run.stage_seconds()
    total = sum(seconds.values())
    parts = "".join(
        f'<div style="flex:{value / total:.4f};background:{_colour(stage)}" '
        f'title="{escape(stage)} {formatting.percent(value / total)}"></div>'
        for stage, value in seconds.items()
    )
    return f'<div class="bar">{parts}</div>'


def _colour(stage: str) -> str:
    return f"var(--{stage})" if stage in STAGES else "var(--other)"
