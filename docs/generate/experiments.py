"""The generated parts of the page of experiments: what each shows, takes at the paper's scale, and has shown."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from generate.adopted import PICTURES, Adopted
from generate.parts import Parts, table
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Experiment, Request
from veldt.formatting import counted

PAGE = Path(__file__).parents[1] / "guide" / "experiments.md"

# Of results without NAME.json: the flags of their commands, where an experiment has other seeds by itself.
_FLAGS = {"minatar": "--seeds 3"}
# Of results without NAME.json: where their tables are.
_TABLES = {"minatar": "The scores of each game: [Benchmarks](../benchmarks.md#minatar)."}


def experiments() -> str:
    """Returns the table of all experiments."""
    rows = [
        [f"`{one.name}`", one.source, one.shows, f"{one.hours:.2g}" if math.isfinite(one.hours) else "–"]
        for one in EXPERIMENTS.values()
    ]
    return table(["name", "source", "what it shows", "hours, small, on two cores"], rows)


def paper_scale() -> str:
    """Returns the table of what each experiment takes at the paper's scale, and what was tried of it.

    Its rows are in docs/images/experiments/paper-scale.csv.
    """
    with (PICTURES / "paper-scale.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["experiment"]: row for row in csv.DictReader(file)}
    heads = ("runs, steps", "hours", "in full: runs, steps", "tried")
    return table(
        ["experiment", *heads],
        [[f"`{name}`", *(rows[name][head] for head in heads)] for name in EXPERIMENTS],
    )


def results() -> str:
    """Returns what each experiment showed, by which command, what differs from the paper, and its pictures, if any.

    The sentences are in docs/images/experiments/NAME.txt, and the pictures and tables beside them. What was adopted
    with NAME.json also says when and on which machines it was made, and whether its runs would be others now.
    """
    parts = []
    for one in EXPERIMENTS.values():
        says = PICTURES / f"{one.name}.txt"
        text = says.read_text().strip() if says.exists() else "No results: it was not run for this page."
        if adopted := Adopted.of(one):
            parts += [f"### {one.name}", adopted.made_by(), *filter(None, [adopted.changed()]), text]
            parts += [
                f"What differs from the paper: {adopted.differs()}",
                *adopted.figures(),
                *adopted.tables(),
                *_curves(one),
            ]
            continue
        differs = " ".join(one.differs(Request("small", one.seeds[0])))
        command = " ".join(filter(None, ("veldt experiment", one.name, _FLAGS.get(one.name))))
        parts += [
            f"### {one.name}",
            f"Made by `{command}`{_seeds(one)}.",
            text,
            f"What differs from the paper: {differs}",
        ]
        parts += [
            f"![{one.name}](../images/experiments/{picture.name})"
            for picture in sorted(PICTURES.glob(f"{one.name}-*.png"))
        ]
        parts += [*filter(None, [_TABLES.get(one.name)]), *_curves(one)]
    return "\n\n".join(parts)


def _curves(one: Experiment) -> list[str]:
    """Returns the link to the points of its curves, if they are kept."""
    name = f"{one.name}-curves.csv"
    has_points = (PICTURES / name).exists()
    return [f"The points of its curves: [CSV](../images/experiments/{name})."] if has_points else []


def _seeds(one: Experiment) -> str:
    """Returns the number of seeds in words, where the command does not name it."""
    repeats = one.repeats and "--seeds" not in _FLAGS.get(one.name, "")
    return f" ({counted(one.seeds[0], 'seed', 'seeds')})" if repeats else ""


def pages() -> dict[Path, Parts]:
    """Returns the generated parts of the page, by their names."""
    return {PAGE: {"experiments": experiments, "paper_scale": paper_scale, "results": results}}
