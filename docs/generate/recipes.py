"""The generated parts of the recipes' pages (docs/recipes): figures, settings, the index."""

from __future__ import annotations

import textwrap
from functools import partial
from pathlib import Path

import gymnasium

from generate.figures import FIGURES
from generate.known import ALGORITHM_SETTINGS, SYSTEM_SETTINGS
from generate.parts import Parts, table
from veldt.recipes import RECIPES, Recipe, cell, plain_recipes, reasons
from veldt.setting_text import flag

PAGES = Path(__file__).parents[1] / "recipes"
INDEX = PAGES / "README.md"


def settings(recipe: Recipe) -> str:
    """Returns the table of the recipe's settings, with a column for each of its variants, where there are two."""
    kinds = {"Atari": _shown(recipe, "ALE/Pong-v5"), "small environments": _shown(recipe, "Acrobot-v1")}
    if recipe.atari == recipe.small:
        kinds = {"value": kinds["small environments"]}
    names = list(dict.fromkeys(name for name, *_ in recipe.table(recipe.config("Acrobot-v1"))))
    rows = []
    for name in names:
        found = {kind: own[name] for kind, own in kinds.items() if name in own}
        if not found:
            continue
        unit = next(unit for _, unit, _ in found.values())
        values = [found[kind][0] if kind in found else "" for kind in kinds]
        sources = [source for *_, source in found.values()]
        if len(set(sources)) == 2:
            sources[1] = f"small: {sources[1]}"
        rows.append([flag_and_unit(name, unit), *values, "; ".join(dict.fromkeys(sources))])
    presets = [_preset(recipe, key) for key in recipe.presets]
    legend = (
        f"What the recipe sets{'; an empty cell leaves the default' if len(kinds) > 1 else ''}. "
        f"`veldt recipes {recipe.name}` prints every other setting, too."
    )
    return "\n\n".join([legend, table(["setting", *kinds, "source"], rows), *presets])


def _preset(recipe: Recipe, key: str) -> str:
    """Returns the table of what differs from the values for small environments, for a family of envs or one env."""
    env = next((name for name in gymnasium.registry if recipe.preset_of(name) == key), key)
    own = _shown(recipe, env)
    rows = [
        [flag_and_unit(name, unit), value, source]
        for name, (value, unit, source) in own.items()
        if name in recipe.presets[key]
    ]
    what = f"For {recipe.values_for(env)}, these differ from the values for small environments:"
    return f"{what}\n\n{table(['setting', 'value', 'source'], rows)}"


def flag_and_unit(name: str, unit: str) -> str:
    return f"`{flag(name)}` ({unit})" if unit and unit not in name else f"`{flag(name)}`"


def _shown(recipe: Recipe, env: str) -> dict[str, tuple[str, str, str]]:
    """Returns, by name, (value, unit, source) of each setting that the recipe has for `env`."""
    own = recipe.settings(env)
    rows = recipe.table(recipe.config(env))
    return {name: (value, unit, source) for name, value, unit, source in rows if name in own}


def recipes() -> str:
    rows = [
        [link(recipe.name), recipe.algorithm, recipe.system, recipe.summary]
        for recipe in plain_recipes().values()
    ]
    return table(["recipe", "algorithm", "system", "what it is"], rows)


def paper_recipes() -> str:
    rows = [[link(one.name), link(one.base.name), one.summary] for one in RECIPES.values() if one.base]
    return table(["paper recipe", "recipe", "what it is"], rows)


def matrix() -> str:
    rows = []
    for algorithm in ALGORITHM_SETTINGS:
        names = [cell(algorithm, system).split(", ") for system in SYSTEM_SETTINGS]
        rows.append([algorithm, *(", ".join(link(name) for name in each) for each in names)])
    why = "\n".join(textwrap.fill(f"* {reason}", 120, subsequent_indent="  ") for reason in reasons())
    return f"{table(['', *SYSTEM_SETTINGS], rows)}\n\nWhy the others cannot:\n\n{why}"


def link(name: str, folder: str = "") -> str:
    """Returns the name of a recipe as a link to its page; any other name as it is."""
    return f"[{name}]({folder}{name}.md)" if name in RECIPES else name


def pages() -> dict[Path, Parts]:
    """Returns the generated parts of each page, by their names."""
    of_recipes = {
        PAGES / f"{name}.md": {
            "figure": partial(str.format, "```{}```", FIGURES[recipe.system]),
            "settings": partial(settings, recipe),
        }
        for name, recipe in plain_recipes().items()
    }
    return {INDEX: {"recipes": recipes, "paper_recipes": paper_recipes, "matrix": matrix}, **of_recipes}
