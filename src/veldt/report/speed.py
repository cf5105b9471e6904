"""The section on speed: time per stage, throughput, and policy lag."""

from __future__ import annotations

from html import escape

from veldt import formatting
from veldt.report.curves import legend, small_chart, time_axis
from veldt.report.data import RunData
from veldt.report.groups import Environment
from veldt.tracking.stage_clock import STAGES

# All but the first five exist only in systems with inference requests, a parameter server or a central store.
CHARTS = (
    "time/steps_per_second",
    "time/updates_per_second",
    "train/policy_lag_mean",
    "system/cores",
    "system/memory_bytes",
    "time/rollouts_per_second",
    "time/predictions_per_second",
    "system/prediction_batch_size",
    "system/training_batch_size",
    "system/prediction_queue_length",
    "system/training_queue_length",
    "system/predictors",
    "system/trainers",
    "system/agents",
    "system/stale_gradient_share",
    "system/gradient_staleness_mean",
    "system/outlier_gradient_share",
    "system/server_blocked_seconds",
    "system/store_blocked_seconds",
    "system/store_updating_seconds",
)


def speed_section(environment: Environment) -> str:
    """Bars of the time per stage, one per run, then charts of throughput, policy lag, queues and threads over time; ""
    if nothing is known.

    If actors and learners are separate, the first bars are the learner's, and the actors have their own.
    """
    runs = environment.runs
    axis = time_axis(environment)
    charts = "".join(small_chart(key, environment, axis) for key in CHARTS)
    bars = _bars(runs, [run.stage_seconds() for run in runs], with_time=len(runs) == 1)
    if actors := _bars(runs, [run.actor_shares() for run in runs], with_time=False):
        bars = f"<h3>The learner's</h3>{bars}<h3>The actors'</h3>{actors}"
    if not bars and not charts:
        return ""
    grid = f'{legend(environment.groups)}<div class="grid">{charts}</div>' if charts else ""
    return f'<section class="speed"><h2>Where the time went</h2>{bars}{grid}</section>'


def _bars(runs: list[RunData], spent: list[dict[str, float]], *, with_time: bool) -> str:
    """A bar for each run whose time per stage, `spent`, is known."""
    known = [(run, by_stage) for run, by_stage in zip(runs, spent, strict=True) if by_stage]
    if not known:
        return ""
    stages = list(dict.fromkeys(stage for _, by_stage in known for stage in by_stage))
    totals = {stage: sum(by_stage.get(stage, 0.0) for _, by_stage in known) for stage in stages}
    items = []
    for stage in stages:
        share = formatting.percent(totals[stage] / sum(totals.values()))
        time = f", {formatting.duration(totals[stage])}" if with_time else ""
        items.append(
            f'<li><i style="background:{_colour(stage)}"></i>{escape(stage)}<span>{share}{time}</span></li>'
        )
    single = len(runs) == 1
    rows = "".join(
        ("" if single else f"<span>{escape(run.name)}</span>") + _bar(by_stage) for run, by_stage in known
    )
    shape = "bars one" if single else "bars"
    return f'<ul class="legend stages">{"".join(items)}</ul><div class="{shape}">{rows}</div>'


def _bar(by_stage: dict[str, float]) -> str:
    total = sum(by_stage.values())
    parts = "".join(
        f'<div style="flex:{value / total:.4f};background:{_colour(stage)}" '
        f'title="{escape(stage)} {formatting.percent(value / total)}"></div>'
        for stage, value in by_stage.items()
    )
    return f'<div class="bar">{parts}</div>'


def _colour(stage: str) -> str:
    return f"var(--{stage})" if stage in STAGES else "var(--other)"
