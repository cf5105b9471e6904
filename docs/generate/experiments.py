"""The generated parts of the page of experiments: what each shows, and what it showed on two cores."""

from __future__ import annotations

import math
from pathlib import Path

from generate.parts import Parts, table
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Request

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
    """Returns what each experiment showed, what differs from the paper, and its pictures, if it has any.

    The sentences are in docs/images/experiments/NAME.txt, and the pictures beside them.
    """
    parts = []
    for one in EXPERIMENTS.values():
        says = PICTURES / f"{one.name}.txt"
        text = says.read_text().strip() if says.exists() else "No results: it was not run for this page."
        differs = " ".join(one.differs(Request("small", one.seeds[0])))
        parts += [f"### {one.name}", text, f"What differs from the paper: {differs}"]
        parts += [
            f"![{one.name}](../images/experiments/{picture.name})"
            for picture in sorted(PICTURES.glob(f"{one.name}-*.png"))
        ]
        if (PICTURES / f"{one.name}-curves.csv").exists():
            parts.append(f"The points of its curves: [CSV](../images/experiments/{one.name}-curves.csv).")
    return "\n\n".join(parts)


def pages() -> dict[Path, Parts]:
    """Returns the generated parts of the page, by their names."""
    return {PAGE: {"experiments": experiments, "results": results}}
