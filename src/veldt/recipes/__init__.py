"""The named recipes.

A recipe has a variant for Atari and one for small environments (vectors), because no publication has one setting for
both; the environment decides which applies. A paper recipe is one configuration of a paper's tables, for Atari alone.
"""

from veldt.config.recipe_registry import plain_recipes
from veldt.recipes.matrix import cell, reasons
from veldt.recipes.paper_recipe import differences
from veldt.recipes.recipe import RECIPES, Recipe, Sourced, derived_of, find
from veldt.recipes.registration import plugins_of, register_recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "Sourced",
    "cell",
    "derived_of",
    "differences",
    "find",
    "plain_recipes",
    "plugins_of",
    "reasons",
    "register_recipe",
]
