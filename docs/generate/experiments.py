"""The generated parts of the page of experiments: what each shows, and what it showed on two cores."""

from __future__ import annotations

import math
from pathlib import Path

from generate.parts import Parts, table
from veldt.experiments.catalogue import EXPERIMENTS

PAGE = Path(__file__).parents[1] / "guide" / "experiments.md"
PICTURES = Path(__file__).parents[1] / "images" / "experiments"


def experiments() -> str:
    """Returns the table of all experiments."""
    rows = [
        [f"`{one.name}`", one.source, one.shows, f"{one.hours:.2g}" if math.isfinite(one.hours) else "–"]
        for one in EXPERIMENTS.values()
    ]
    return table(["name", "source", "what it shows", "hours, small, on two cores"], rows)


def results() -> str:
    """Returns the picture of each experiment that has one in docs/images/experiments, with the sentence below it."""
    parts = []
    for name in EXPERIMENTS:
        says = PICTURES / f"{name}.txt"
        if says.exists():
            parts.append(f"### {name}\n\n{says.read_text().strip()}")
            parts += [
                f"![{name}](../images/experiments/{picture.name})"
                for picture in sorted(PICTURES.glob(f"{name}-*.png"))
            ]
    return "\n\n".join(parts)


def pages() -> dict[Path, Parts]:
    """Returns the generated parts of the page, by their names."""
    return {PAGE: {"experiments": experiments, "results": results}}
