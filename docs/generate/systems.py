"""The generated parts of the systems' pages (docs/systems): figures, settings, algorithms and recipes."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

from generate.figures import FIGURES
from generate.known import ALGORITHM_SETTINGS, SYSTEM_SETTINGS
from generate.parts import Parts, table
from generate.recipes import link
from generate.settings import settings_table
from veldt.recipes import RECIPES, cell

PAGES = Path(__file__).parents[1] / "systems"


def settings(system: str) -> str:
    cls = SYSTEM_SETTINGS[system]
    return settings_table(cls, [field.name for field in dataclasses.fields(cls)])


def algorithms(system: str) -> str:
    """Returns a table of the algorithms that run in the system, with the recipe that each runs as."""
    first = next(name for name, recipe in RECIPES.items() if recipe.system == system)
    rows = []
    for algorithm in ALGORITHM_SETTINGS:
        found = cell(algorithm, system)
        if found == "-":
            continue
        own = [name for name in found.split(", ") if name in RECIPES]
        command = f"`veldt train {own[0]}`" if own else f"`veldt train {first} --algorithm {algorithm}`"
        rows.append([algorithm, ", ".join(link(name, "../recipes/") for name in own) or "", command])
    return table(["algorithm", "recipe", "command"], rows)


def pages() -> dict[Path, Parts]:
    """Returns the generated parts of each page, by their names."""
    return {
        PAGES / f"{system}.md": {
            "figure": partial(str.format, "```{}```", FIGURES[system]),
            "settings": partial(settings, system),
            "algorithms": partial(algorithms, system),
        }
        for system in SYSTEM_SETTINGS
    }
