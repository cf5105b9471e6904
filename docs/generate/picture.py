"""The picture of the two axes (docs/images/axes.svg): which algorithm runs in which system, under which name."""

from __future__ import annotations

from pathlib import Path

from generate.known import ALGORITHM_SETTINGS, SYSTEM_SETTINGS
from veldt.recipes import cell

FILE = Path(__file__).parents[1] / "images" / "axes.svg"
_LEFT, _TOP, _WIDTH, _HEIGHT, _GAP = 150, 104, 122, 40, 6
_INK, _PALE = "#1f2933", "#7b8794"
# Fill, text colour and weight of a cell: a recipe, a pair without a recipe of its own, a pair that is refused.
_RECIPE, _PAIR, _REFUSED = ("#1d6f6a", "#ffffff", 600), ("#cfe8e4", "#1d5f5b", 400), ("#f1f3f5", _PALE, 400)


def drawn() -> str:
    """Returns the picture as SVG. Its background is its own, so that it reads on light and dark pages."""
    width = _LEFT + len(SYSTEM_SETTINGS) * (_WIDTH + _GAP) + 14
    height = _TOP + len(ALGORITHM_SETTINGS) * (_HEIGHT + _GAP) + 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" font-family="system-ui, sans-serif" font-size="15">',
        "<title>Algorithms by systems: which pairs run, and the recipe of each</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#ffffff"/>',
        _text(
            _LEFT + len(SYSTEM_SETTINGS) * (_WIDTH + _GAP) / 2,
            34,
            "system: where the work happens",
            _INK,
            600,
        ),
        _text(_LEFT - 10, 62, "algorithm:", _INK, 600, "end"),
        _text(_LEFT - 10, 80, "what is learned", _INK, 600, "end"),
    ]
    for column, system in enumerate(SYSTEM_SETTINGS):
        parts.append(_text(_LEFT + column * (_WIDTH + _GAP) + _WIDTH / 2, _TOP - 16, system, _INK))
    for row, algorithm in enumerate(ALGORITHM_SETTINGS):
        y = _TOP + row * (_HEIGHT + _GAP)
        parts.append(_text(_LEFT - 14, y + _HEIGHT / 2 + 5, algorithm, _INK, anchor="end"))
        for column, system in enumerate(SYSTEM_SETTINGS):
            name = cell(algorithm, system)
            fill, colour, weight = {"yes": _PAIR, "-": _REFUSED}.get(name, _RECIPE)
            x = _LEFT + column * (_WIDTH + _GAP)
            parts.append(f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{fill}"/>')
            label = {"yes": "✓", "-": "–"}.get(name, name)
            parts.append(_text(x + _WIDTH / 2, y + _HEIGHT / 2 + 5, label, colour, weight))
    x, y = _LEFT, height - 24
    legend = ((_RECIPE, "a recipe, with a paper's settings", 290), (_PAIR, "runs with --algorithm", 210))
    for (fill, *_), text, room in (*legend, (_REFUSED, "refused, with the reason", 0)):
        parts.append(
            f'<rect x="{x}" y="{y - 11}" width="14" height="14" rx="3" fill="{fill}" stroke="#cbd2d9"/>'
        )
        parts.append(_text(x + 22, y + 1, text, _PALE, anchor="start"))
        x += room
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, colour: str, weight: int = 400, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-weight="{weight}" text-anchor="{anchor}">{text}</text>'
