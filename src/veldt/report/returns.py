"""The section on the return: its curve over agent steps and over time, with the interval of several runs."""

from __future__ import annotations

import numpy as np

from veldt.report.charts import Curve, Series, line_chart
from veldt.report.curves import STEPS, Axis, legend, time_axis
from veldt.report.data import on_common_grid
from veldt.report.groups import Environment, Group
from veldt.report.statistics import interquartile_mean, mean, stratified_interval

# From so many runs on, the interquartile mean leaves out something.
RUNS_FOR_QUARTILES = 4
_REPEATS = 1000


def return_section(environment: Environment) -> str:
    """Charts of the return over agent steps and over time."""
    groups, charts = environment.groups, []
    for axis, caption in ((STEPS, "Over agent steps"), (time_axis(environment), "Over time")):
        series = [_series(colour, group, axis) for colour, group in enumerate(groups)]
        if all(one.is_empty() for one in series):
            continue
        # A chart scaled down to a phone is not readable, so both sizes are drawn and the style sheet shows one.
        identifier = f"{environment.prefix}return-{axis.key}"
        wide = line_chart(series, axis.label, 528, 320, f"{identifier}-wide")
        narrow = line_chart(series, axis.label, 344, 250, f"{identifier}-narrow")
        drawings = f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
        charts.append(f"<figure><h3>{caption}</h3>{drawings}</figure>")
    if not charts:
        return '<section><h2>Return</h2><p class="note">No episode has been finished yet.</p></section>'
    parts = (
        f'<p class="note">{_note(groups)}</p>',
        legend(groups),
        f'<div class="pair">{"".join(charts)}</div>',
    )
    return f"<section><h2>Return</h2>{''.join(parts)}</section>"


def centre_and_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(centre, low, high), float64 [points] each, of the curves `values` [runs, points] of two runs or more.

    The centre is the mean, or from four runs on the interquartile mean, at each point; low and high are the ends of its
    95% bootstrap interval.
    """
    statistic = interquartile_mean if len(values) >= RUNS_FOR_QUARTILES else mean
    # Its points are drawn together: a repeat is a draw of whole runs.
    scores = values[:, None, :]
    low, high = stratified_interval(statistic, scores, repeats=_REPEATS, seed=0)
    return np.asarray(statistic(scores)), np.asarray(low), np.asarray(high)


def _series(colour: int, group: Group, axis: Axis) -> Series:
    curves: list[Curve] = [axis.over_steps(run, run.mean_returns()) for run in group.runs]
    if len(curves) == 1:
        run = group.runs[0]
        return Series(colour, curves[0], [axis.over_steps(run, run.single_returns())])
    curves = [(x, y) for x, y in curves if len(x)]  # a run without an episode has none
    if len(curves) < 2:
        return Series(colour, curves[0] if curves else (np.empty(0), np.empty(0)))
    x, values = on_common_grid(curves)
    if not len(x):
        return Series(colour, (x, x), curves)
    centre, low, high = centre_and_interval(values)
    return Series(colour, (x, centre), curves, (x, low, high))


def _note(groups: list[Group]) -> str:
    most = max(len(group.runs) for group in groups)
    if most == 1:
        return "Mean over the last 100 episodes; thin: each episode."
    centre = "mean"
    if most >= RUNS_FOR_QUARTILES:
        fewest = min(len(group.runs) for group in groups if len(group.runs) > 1)
        few = f" (of fewer than {RUNS_FOR_QUARTILES}, mean)" if fewest < RUNS_FOR_QUARTILES else ""
        centre = f"interquartile mean{few}"
    return (
        f"Mean over the last 100 episodes; thin: each seed; thick: their {centre}, shaded: its 95% bootstrap "
        "interval."
    )
