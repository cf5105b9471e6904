"""What docs/images/experiments/NAME.json says of the results of an experiment, and the parts of the page made of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from generate.parts import table
from generate.run_settings import changes, with_cores
from veldt.experiments.experiment import Experiment, Request
from veldt.formatting import counted

PICTURES = Path(__file__).parents[1] / "images" / "experiments"
_AT_ONCE = 12  # rows of a table that is shown without a click


class Adopted:
    """The results of an experiment's directory that `python docs/generate --adopt` has copied into `PICTURES`.

    Args:
        about: the content of NAME.json, as `generate.adopt` writes it.
    """

    def __init__(self, experiment: Experiment, about: Mapping[str, Any]) -> None:
        self._experiment, self._about = experiment, about
        asked = about["request"]
        games, recipes = tuple(asked["games"]), tuple(asked["recipes"])
        self.request = Request(asked["scale"], asked["seeds"], games, recipes)

    @classmethod
    def of(cls, experiment: Experiment, pictures: Path = PICTURES) -> Adopted | None:
        """Returns what was adopted of an experiment; None if nothing was."""
        path = pictures / f"{experiment.name}.json"
        return cls(experiment, json.loads(path.read_text())) if path.exists() else None

    def made_by(self) -> str:
        """Returns a sentence with the command, the day and the machines."""
        asked, own = self.request, self._experiment.seeds
        flags = [] if asked.is_small else ["--scale", asked.scale]
        repeats = self._experiment.repeats
        if repeats and asked.seeds != own[not asked.is_small]:
            flags += ["--seeds", str(asked.seeds)]
        for name, values in (("--games", asked.games), ("--recipes", asked.recipes)):
            flags += [name, *values] if values else []
        command = " ".join(("veldt experiment", self._experiment.name, *flags))
        seeds = f" ({counted(asked.seeds, 'seed', 'seeds')})" if repeats and "--seeds" not in flags else ""
        day = date.fromisoformat(self._about["date"])
        machines = "; ".join(self._about["machines"]) or "an unknown machine"
        return f"Made by `{command}`{seeds} on {day:%-d %B %Y}, with {machines}."

    def differs(self) -> str:
        """Returns what differs from the paper, in sentences."""
        with with_cores(self._about["cores"]):
            return " ".join(self._experiment.differs(self.request))

    def changed(self) -> str:
        """Returns a sentence on what the same command does otherwise now; "" if nothing is known."""
        with with_cores(self._about["cores"]):
            return changes(self._experiment.jobs(self.request), self._about)

    def figures(self) -> Iterator[str]:
        """Yields each figure, with its caption."""
        for one in self._about["figures"]:
            yield f"![{self._experiment.name}](../images/experiments/{one['file']})"
            yield one["caption"]

    def tables(self, pictures: Path = PICTURES) -> Iterator[str]:
        """Yields each table under its title; a long one is unfolded by a click."""
        for one in self._about["tables"]:
            with (pictures / one["file"]).open(encoding="utf-8", newline="") as file:
                heads, *rows = ([_cell(text) for text in row] for row in csv.reader(file))
            parts = [table(heads, rows), *filter(None, [one["caption"]])]
            if len(rows) <= _AT_ONCE:
                parts.insert(0, f"**{one['title']}**")
            else:
                title = f"{one['title']} ({len(rows)} rows)"
                parts = [f'<details markdown="1">\n<summary>{title}</summary>', *parts, "</details>"]
            yield "\n\n".join(parts)


def _cell(text: str) -> str:
    """Returns a text as a cell of a Markdown table."""
    for special, escaped in (("<", "&lt;"), ("|", r"\|"), ("*", r"\*"), ("_", r"\_")):
        text = text.replace(special, escaped)
    return text
