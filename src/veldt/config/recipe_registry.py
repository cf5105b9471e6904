"""The registry of recipes, where checks of a configuration can name them; `recipes/recipe.py` says what a recipe is."""

from __future__ import annotations

from typing import Any

from veldt.registry import Registry

# All recipes by name, in the order of listings.
RECIPES: Registry[Any] = Registry("recipe", "veldt.recipes.builtin")


def plain_recipes() -> dict[str, Any]:
    """Returns the recipes that are no paper recipe: those that have values for every env."""
    return {name: recipe for name, recipe in RECIPES.items() if recipe.base is None}
