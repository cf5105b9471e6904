"""The generated parts of the page of metrics: a table for each prefix."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from generate.parts import Parts, table
from veldt.tracking.metric_names import METRICS

PAGE = Path(__file__).parents[1] / "metrics.md"


def metrics(prefix: str) -> str:
    """Returns the table of the metrics with `prefix`, in the dictionary's order."""
    rows = [
        [f"`{metric.name}`", metric.unit, metric.meaning, metric.emitter]
        for metric in METRICS.values()
        if metric.prefix == prefix
    ]
    return table(["name", "unit", "meaning", "logged by"], rows)


def pages() -> dict[Path, Parts]:
    """Returns the generated parts of the page, by their names: a prefix, or "coordinates" for names without one."""
    prefixes = dict.fromkeys(metric.prefix for metric in METRICS.values())
    return {PAGE: {prefix or "coordinates": partial(metrics, prefix) for prefix in prefixes}}
