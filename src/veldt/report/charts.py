"""Line charts as SVG in the page's style: its font and its colours, light or dark.

Matplotlib draws with placeholder colours, which are then replaced by the page's CSS variables.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from veldt import formatting
from veldt.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES_COLOURS = 8
_STAND_INS = {f"#a0000{i}": f"var(--series-{i})" for i in range(SERIES_COLOURS)}
_TEXT, _GRID = "#b00001", "#b00002"
_STAND_INS |= {_TEXT: "var(--muted)", _GRID: "var(--grid)"}
_FONT_SIZE = 10.5

Curve = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Series:
    """One curve: `strong` is drawn in front, `faint` ones behind it; `band` is (x, low, high). All float64 [points]."""

    colour: int
    strong: Curve
    faint: Sequence[Curve] = field(default=())
    band: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def is_empty(self) -> bool:
        """Whether it has no points."""
        return len(self.strong[0]) == 0 and all(len(x) == 0 for x, _ in self.faint)


def import_matplotlib() -> None:
    """Imports it, also where MPLBACKEND names a backend that is not installed: Jupyter sets its own for all that it
    starts, in other environments of Python as well. Charts in files need none."""
    try:
        import matplotlib
    except ValueError:
        if (backend := os.environ.pop("MPLBACKEND", None)) is None:
            raise
        for half_imported in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
            del sys.modules[half_imported]
        try:
            import matplotlib  # noqa: F401
        finally:
            os.environ["MPLBACKEND"] = backend


def line_chart(series: Sequence[Series], x_label: str, width: int, height: int, identifier: str) -> str:
    """Returns an `<svg>` of `width` x `height` CSS pixels; `identifier`, unique on the page, prefixes element ids."""
    try:
        import_matplotlib()
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, MaxNLocator
    except ImportError as error:
        raise UsageError("reports need the package matplotlib: pip install matplotlib") from error

    # 72 points per inch: one point of the drawing is one CSS pixel.
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    FigureCanvasSVG(figure)
    left, right, bottom, top = 44, 10, 34, 8
    axes = figure.add_axes(
        (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
    )
    for one in series:
        _draw(axes, one)
    low, high = _limits(series)
    axes.set_ylim(low, high)
    axes.margins(x=0.01)
    axes.patch.set_visible(False)
    figure.patch.set_visible(False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
    axes.grid(axis="y", color=_GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6, labelsize=_FONT_SIZE, labelcolor=_TEXT)
    axes.set_xlabel(x_label, color=_TEXT, fontsize=_FONT_SIZE, labelpad=3)
    axes.xaxis.set_major_locator(MaxNLocator(max(4, width // 70), steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(max(4, height // 38), steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    return _svg(figure, identifier)


def clipped(series: Sequence[Series]) -> float | None:
    """Returns the value farthest outside the chart's y axis, if spikes were cut off to keep the rest readable."""
    values = _values(series)
    low, high = _limits(series)
    outside = values[(values < low) | (values > high)]
    return float(outside[np.abs(outside).argmax()]) if len(outside) else None


def _draw(axes: Axes, one: Series) -> None:
    colour = f"#a0000{one.colour % SERIES_COLOURS}"
    if one.band is not None:
        axes.fill_between(*one.band, color=colour, alpha=0.14, linewidth=0)
    # A single point has no line, so it gets a marker.
    for x, y in one.faint:
        axes.plot(x, y, color=colour, alpha=0.25, linewidth=0.9, marker="o" if len(x) == 1 else "")
    x, y = one.strong
    axes.plot(x, y, color=colour, linewidth=2, marker="o" if len(x) == 1 else "", solid_joinstyle="round")


def _values(series: Sequence[Series]) -> np.ndarray:
    curves = [y for one in series for _, y in (one.strong, *one.faint)]
    return np.concatenate([*curves, np.empty(0)])


def _limits(series: Sequence[Series]) -> tuple[float, float]:
    """Limits of the y axis: all values, unless a few spikes would flatten the rest."""
    values = _values(series)
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    inner_low, inner_high = (float(value) for value in np.percentile(values, (2, 98)))
    if len(values) >= 50 and high - low > 8 * (inner_high - inner_low) > 0:
        low, high = inner_low, inner_high
    margin = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _tick(value: float, _: object) -> str:
    if abs(value) >= 1000:
        return formatting.count(value)
    return f"{value:.3g}".replace("-", "\u2212")


def _svg(figure: Figure, identifier: str) -> str:
    import matplotlib

    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": identifier}):
        figure.savefig(text, format="svg", metadata=nothing)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # The page's CSS sets the size, and SVG inside HTML needs no namespaces.
    svg = re.sub(r"<svg [^>]*?viewBox=\"([^\"]*)\"[^>]*>", r'<svg viewBox="\1" role="img">', svg, count=1)
    # Older versions of matplotlib write one `font`, newer ones size and family separately.
    svg = re.sub(
        r"font: ([\d.]+)px [^;\"]*|font-family: [^;\"]*; ?",
        lambda m: f"font-size: {m[1]}px" if m[1] else "",
        svg,
    )
    svg = re.sub(r"\bid=\"", f'id="{identifier}-', svg)
    svg = re.sub(r"(href=\"#|url\(#)", rf"\g<1>{identifier}-", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for colour, variable in _STAND_INS.items():
        svg = svg.replace(colour, variable)
    return re.sub(r"\n\s*", "\n", svg).strip()
