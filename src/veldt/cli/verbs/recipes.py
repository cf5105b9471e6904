"""The verb `recipes`: all recipes, the values of one, or which algorithm runs in which system."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from veldt.cli.arguments import CommandLine, Positional, parse
from veldt.cli.verbs.training import ATARI, add_settings, peek
from veldt.errors import UsageError
from veldt.setting_text import shown

if TYPE_CHECKING:
    from rich.console import Console

    from veldt.recipes import Recipe


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """List the recipes, or one with every value, its unit and its source."""

    name: Annotated[str | None, Positional] = None
    """The recipe to show, followed by any of its settings (--batch-size 512) to see what follows from them; if not
    given, all recipes are listed."""
    matrix: bool = False
    """Print the table algorithms x systems instead: which pairs run, and why the others cannot."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """For what the values are shown."""

    env: str = ATARI
    """The environment for which the values are shown: Atari's games, small environments, and in some recipes a family
    (Box2D, MuJoCo ...) or a single environment have values of their own."""
    algorithm: str | None = None
    """Another algorithm in the recipe's system: c51 in apex-dqn, say."""
    graph: bool = False
    """Print the roles (processes) and the edges between them instead of values."""


def recipes(arguments: list[str]) -> str:
    from veldt.recipes import find
    from veldt.registry import broken_plugins_shown
    from veldt.tracking.console import output_console

    console = output_console(file=io.StringIO())
    if not arguments or arguments[0].startswith("-"):
        given = parse(Recipes, arguments, "recipes")
        if given.name is not None:
            raise UsageError(f"--matrix is about all recipes: leave out {shown(given.name)}")
        if given.matrix:
            _print_matrix(console)
        else:
            _print_recipes(console)
            for line in broken_plugins_shown():
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    else:
        _print_recipe(console, find(arguments[0]), arguments[1:])
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n")


def _print_recipes(console: Console) -> None:
    """Prints the recipes, and below them the paper recipes, each with the recipe that it differs from."""
    from rich.table import Table

    from veldt.recipes import RECIPES, plain_recipes

    table = Table("recipe", "algorithm", "system", "what it is", box=None)
    for recipe in plain_recipes().values():
        table.add_row(recipe.name, recipe.algorithm, recipe.system, recipe.summary)
    console.print(table)
    of_papers = Table("paper recipe", "recipe", "what it is", box=None)
    for recipe in RECIPES.values():
        if recipe.base is not None:
            of_papers.add_row(recipe.name, recipe.base.name, recipe.summary)
    console.print(
        "\nPaper recipes: a recipe with the values of one configuration of a paper, for Atari games alone\n"
    )
    console.print(of_papers)


def _print_matrix(console: Console) -> None:
    from rich.table import Table

    from veldt.algorithms.registry import ALGORITHMS
    from veldt.config.system_registry import SYSTEMS
    from veldt.recipes import cell, reasons

    table = Table("", *SYSTEMS, box=None)
    for algorithm in ALGORITHMS:
        table.add_row(algorithm, *(cell(algorithm, system) for system in SYSTEMS))
    console.print(table)
    lines = [
        "",
        "yes: `veldt train RECIPE --algorithm ALGORITHM`, with a recipe of that column",
        *reasons(),
    ]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _print_recipe(console: Console, recipe: Recipe, arguments: list[str]) -> None:
    """Prints one recipe's values, with the given settings and the values that follow from them."""
    from rich.table import Table

    from veldt.envs.source import resolve
    from veldt.recipes import derived_of
    from veldt.recipes.overrides import build_config, why_no_setting

    draft = recipe.draft(peek(arguments, "env") or ATARI, peek(arguments, "algorithm"))
    why_none = partial(why_no_setting, draft)
    line = CommandLine(f"recipes {recipe.name}", Recipes.__doc__ or "", why_none)
    line.add(Shown, "environment")
    add_settings(line, draft)
    given = line.parse(arguments)
    shown = {name: given.pop(name, None) for name in ("env", "algorithm", "graph")}
    config = build_config(draft, given)
    if shown["env"] is not None:
        resolve(config.env)  # a mistyped id would have the values for small environments
    if shown["graph"]:
        from veldt import api

        lines = [f"{recipe.name} on {config.env}", "", *api.drawn(config)]
        if shown["env"] is None:
            lines += ["", "--env shows the graph for another environment"]
        console.print("\n".join(lines), markup=False, highlight=False)
        return
    kind = recipe.values_for(config.env, config.algorithm)
    table = Table("setting", "value", "unit", "source", title=f"{recipe.name} · {kind}", box=None)
    for row in recipe.table(config, given):
        table.add_row(*row)
    if derived := derived_of(config):
        table.add_row()
    for row in derived:
        table.add_row(*row)
    console.print(table)
    console.print(_what_else(recipe, kind), style="dim", highlight=False, soft_wrap=True)


def _what_else(recipe: Recipe, kind: str) -> str:
    """Returns the sentence below a recipe's values: for which envs they are, and which others there are."""
    from veldt.recipes import differences

    command = f"veldt recipes {recipe.name}"
    other = f"`{command} --env Acrobot-v1` shows those for small environments"
    if kind != "Atari":
        other = f"`{command}` shows those for Atari"
    if recipe.base is not None:
        names = ", ".join(name for name, *_ in differences(recipe)) or "nothing"
        other = f"they differ from {recipe.base.name}'s in {names}"
    return f"These are the values for {kind}; {other}."
