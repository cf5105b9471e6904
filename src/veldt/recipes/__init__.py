"""The named recipes.

A recipe has a variant for Atari and one for small environments (vectors), because no publication has one setting for
both; the environment decides which applies.
"""

from veldt.recipes.matrix import cell, reasons
from veldt.recipes.recipe import RECIPES, Recipe, Sourced, derived_of, find
from veldt.recipes.registration import plugins_of, register_recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "Sourced",
    "cell",
    "derived_of",
    "find",
    "plugins_of",
    "reasons",
    "register_recipe",
]
