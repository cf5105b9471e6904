"""The generated parts of a page: where they begin and end, and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

# A function for each part of a page, by the part's name; it returns the part's text.
Parts = Mapping[str, Callable[[], str]]
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: Path, parts: Parts) -> str:
    """Returns the page's text with its generated parts up to date."""
    return _PART.sub(lambda found: f"{found[1]}\n{parts[found[2]]()}\n\n{found[3]}", page.read_text())


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
