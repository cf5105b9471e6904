"""The registry of recipes, where checks of a configuration can name them; `recipes/recipe.py` says what a recipe is."""

from __future__ import annotations

from typing import Any

from veldt.registry import Registry

# All recipes by name, in the order of listings.
RECIPES: Registry[Any] = Registry("recipe", "veldt.recipes.builtin")
