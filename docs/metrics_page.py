"""Writes the tables of docs/metrics.md from the dictionary of metrics.

    python docs/metrics_page.py

The text between `<!-- generated: PREFIX -->` and `<!-- end -->` is replaced by the metrics with that prefix
("coordinates": those without one); the rest of the page is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from veldt.tracking.metric_names import METRICS

PAGE = Path(__file__).parent / "metrics.md"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(prefix: str) -> str:
    """Returns the table of the metrics with `prefix`, in the dictionary's order."""
    metrics = [metric for metric in METRICS.values() if metric.prefix == prefix]
    rows = [(f"`{metric.name}`", metric.unit, metric.meaning, metric.emitter) for metric in metrics]
    lines = [("name", "unit", "meaning", "logged by"), ("---",) * 4, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def written() -> str:
    """Returns the page's text with its tables up to date."""

    def part(found: re.Match[str]) -> str:
        prefix = "" if found[2] == "coordinates" else found[2]
        return f"{found[1]}\n{table(prefix)}\n\n{found[3]}"

    return _PART.sub(part, PAGE.read_text())


def main() -> None:
    before, after = PAGE.read_text(), written()
    if after != before:
        PAGE.write_text(after)
        print(f"{PAGE} is new")


if __name__ == "__main__":
    main()
