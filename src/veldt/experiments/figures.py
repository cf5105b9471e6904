"""The figures and tables of an experiment, drawn by matplotlib."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veldt.errors import UsageError
from veldt.experiments.results import FinishedRun, Results, mean_curve, mean_line
from veldt.formatting import counted
from veldt.report.charts import import_matplotlib

try:
    import_matplotlib()
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:  # veldt was installed without what it depends on
    raise UsageError("figures need the package matplotlib: pip install matplotlib") from error

_WIDTH, _HEIGHT = 4.6, 3.3  # inches of a chart
_MOST_IN_A_ROW = 3
# Inches of a chart of rows: its width, the height of a row, and the height of what is around all of them.
_ROWS_WIDTH = 9.2
_ROW = 0.19
_AROUND = 1.6
_MARKERS, _NUM_COLOURS = "osD^vPX<>*", 10
_LINES = ("-", "--", ":", "-.")


def line_style(number: int) -> dict[str, Any]:
    """Returns the colour and the kind of the line with this number, as keywords of `plot`."""
    return {
        "color": f"C{number % _NUM_COLOURS}",
        "linestyle": _LINES[number // _NUM_COLOURS % len(_LINES)],
    }


@dataclass(frozen=True)
class Drawing:
    """A figure, with the sentence below it."""

    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Table:
    """A table: `header` and rows of texts; the page shows it and a CSV file holds it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Exhibit:
    """What an experiment shows; `says` is what that means, and whether it agrees with the paper."""

    says: str
    drawings: Sequence[Drawing] = field(default=())
    tables: Sequence[Table] = field(default=())


@dataclass(frozen=True)
class Line:
    """Points of a line, [K] each; `low` and `high` are the ends of their intervals, NaN where there is none."""

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    is_dashed: bool = False


def charts(number: int, titles: Sequence[str], horizontal: str, vertical: str) -> tuple[Figure, list[Axes]]:
    """Returns a figure of `number` charts beside each other, with their titles and axes' names."""
    columns = min(max(number, 1), _MOST_IN_A_ROW)
    rows = max(math.ceil(number / columns), 1)
    figure = Figure(figsize=(_WIDTH * columns, _HEIGHT * rows), layout="constrained", dpi=110)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for unused in axes[number:]:
        unused.set_visible(False)
    for one, title in zip(axes, titles, strict=False):
        one.set_title(title, fontsize=10)
        one.set_xlabel(horizontal)
        one.set_ylabel(vertical)
        one.grid(alpha=0.25)
    return figure, axes[:number]


def learning_curves(
    results: Results,
    title: str = "Learning curves",
    by: str = "agent steps",
    horizontal: Callable[[FinishedRun, np.ndarray], np.ndarray] = lambda run, steps: steps,
    references: Mapping[str, Mapping[str, float | Line]] | None = None,
) -> Drawing:
    """Returns the mean return over steps (or what `horizontal` makes of them), a chart per environment.

    `references` are others' results by chart and label: one number, or a curve over the same axis.
    """
    by_chart = results.charts()
    figure, axes = charts(len(by_chart), list(by_chart), by, "mean return")
    for one, (chart, groups) in zip(axes, by_chart.items(), strict=True):
        for number, (group, runs) in enumerate(groups.items()):
            x, mean, low, high = mean_curve(runs, horizontal)
            style = line_style(number)
            one.plot(x, mean, **style, label=group)
            one.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
        _draw_references(one, (references or {}).get(chart, {}))
        if groups:
            one.legend(frameon=False, fontsize=7, ncols=1 + len(groups) // 6)
    seeds = max((len(runs) for _, _, runs in results.groups()), default=0)
    bands = "; bands are 95% bootstrap intervals" if seeds > 1 else " (one seed: no interval)"
    return Drawing(title, f"Mean raw return over {counted(seeds, 'seed', 'seeds')}{bands}.", figure)


def mean_of_curves(curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> Line:
    """Returns the mean of curves (x, y), with its 95% bootstrap interval, where all have points."""
    x, mean, low, high = (axis.tolist() for axis in mean_line(curves))
    return Line(x, mean, low, high)


def lines(
    title: str,
    caption: str,
    panels: Mapping[str, Mapping[str, Line]],
    horizontal: str,
    vertical: str,
    *,
    logarithmic: bool = False,
    references: Mapping[str, float] | None = None,
) -> Drawing:
    """Returns charts of lines with points; `references` are horizontal lines by label."""
    figure, axes = charts(len(panels), list(panels), horizontal, vertical)
    for one, named in zip(axes, panels.values(), strict=True):
        for number, (label, line) in enumerate(named.items()):
            colour = f"C{number % _NUM_COLOURS}"
            style = "--" if line.is_dashed else "-"
            one.plot(line.x, line.y, color=colour, linestyle=style, marker="o", markersize=4, label=label)
            if len(line.low) == len(line.x):
                one.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        _draw_references(one, references or {})
        if logarithmic:
            one.set_xscale("log", base=2)
            ticks = sorted({x for line in named.values() for x in line.x})
            one.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            one.minorticks_off()
        if named:
            one.legend(frameon=False, fontsize=7)
    return Drawing(title, caption, figure)


def _draw_references(axes: Axes, references: Mapping[str, float | Line]) -> None:
    for (label, values), linestyle in zip(references.items(), itertools.cycle(("--", ":")), strict=False):
        if isinstance(values, Line):
            axes.plot(
                values.x, values.y, color="0.4", linestyle=linestyle, linewidth=1, marker=".", label=label
            )
        else:
            axes.axhline(values, color="0.4", linestyle=linestyle, linewidth=1, label=label)


def dots(
    title: str,
    caption: str,
    rows: Sequence[str],
    series: Mapping[str, Mapping[str, float]],
    horizontal: str,
    *,
    references: Mapping[str, float],
    names_have_the_colour_of_the_highest: bool = False,
) -> Drawing:
    """Returns a chart with a row for each name and a dot for each value of `series`, by label and row.

    Values that are not finite are left out. The axis is linear between -1 and 1, and logarithmic from there on.

    Args:
        rows: names, from above.
        references: vertical lines by label.
        names_have_the_colour_of_the_highest: whether a row's name has the colour of the series with its highest value.
    """
    figure = Figure(figsize=(_ROWS_WIDTH, _AROUND + _ROW * max(len(rows), 1)), layout="constrained", dpi=110)
    axes = figure.subplots()
    place = {row: number for number, row in enumerate(rows)}
    for number, (label, values) in enumerate(series.items()):
        points = [(value, place[row]) for row, value in values.items() if np.isfinite(value)]
        x, y = zip(*points, strict=True) if points else ((), ())
        marker, colour = _MARKERS[number % len(_MARKERS)], f"C{number % _NUM_COLOURS}"
        axes.plot(x, y, linestyle="", marker=marker, color=colour, markersize=5, alpha=0.85, label=label)
    for (label, value), linestyle in zip(references.items(), ("--", ":"), strict=False):
        axes.axvline(value, color="0.4", linestyle=linestyle, linewidth=1, label=label, zorder=1)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(horizontal)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    if names_have_the_colour_of_the_highest:
        for text, row in zip(axes.get_yticklabels(), rows, strict=True):
            values_of_row = enumerate(values.get(row, math.nan) for values in series.values())
            known = [(value, -number) for number, value in values_of_row if math.isfinite(value)]
            if known:
                text.set_color(f"C{-max(known)[1] % _NUM_COLOURS}")
    figure.legend(loc="outside upper center", frameon=False, fontsize=8, ncols=4)
    return Drawing(title, caption, figure)


@dataclass(frozen=True)
class Surface:
    """Values [rows, columns], NaN where there is none, with the number of each row and column.

    `paths` are points (row, column) that are joined and numbered, by label: they are drawn on the surface, at the
    nearest place if they lie between its rows and columns.
    """

    values: np.ndarray
    rows: Sequence[float]
    columns: Sequence[float]
    paths: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)


def surfaces(
    title: str, caption: str, panels: Mapping[str, Surface], horizontal: str, vertical: str
) -> Drawing:
    """Returns a chart for each surface: a map with the values in its cells, and the paths on it."""
    figure, axes = charts(len(panels), list(panels), horizontal, vertical)
    for one, surface in zip(axes, panels.values(), strict=True):
        one.grid(visible=False)
        if not surface.values.size:
            continue
        image = one.imshow(surface.values, origin="lower", aspect="auto", cmap="viridis")
        one.set_xticks(range(len(surface.columns)), [f"{column:g}" for column in surface.columns])
        one.set_yticks(range(len(surface.rows)), [f"{row:g}" for row in surface.rows])
        for (row, column), value in np.ndenumerate(surface.values):
            if np.isfinite(value):
                one.text(column, row - 0.25, f"{value:,.0f}", ha="center", va="center", color="w", fontsize=8)
        for place, (label, path) in enumerate(surface.paths.items()):
            y = np.interp([row for row, _ in path], surface.rows, range(len(surface.rows)))
            x = np.interp([column for _, column in path], surface.columns, range(len(surface.columns)))
            one.plot(x, y, color=f"C{place + 1}", marker="o", markersize=4, label=label)
            one.plot(x[-1:], y[-1:], color=f"C{place + 1}", marker="*", markersize=12)
        if surface.paths:
            one.legend(frameon=True, fontsize=7)
        figure.colorbar(image, ax=one)
    return Drawing(title, caption, figure)


def number(value: float, low: float = float("nan"), high: float = float("nan")) -> str:
    """Returns a number for a table, with its interval if there is one."""
    if not math.isfinite(value):
        return "–"
    digits = 0 if abs(value) >= 1_000 else 1 if abs(value) >= 10 else 3
    ends = f" [{low:,.{digits}f}, {high:,.{digits}f}]" if math.isfinite(low) and math.isfinite(high) else ""
    return f"{value:,.{digits}f}{ends}"
