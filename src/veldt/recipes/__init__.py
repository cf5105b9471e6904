"""The named recipes.

A recipe has a variant for Atari and one for small environments (vectors), because no publication has one setting for
both; the environment decides which applies.
"""

from veldt.recipes.apex import APEX_DDPG, APEX_DQN
from veldt.recipes.ga3c import GA3C
from veldt.recipes.gorila import GORILA
from veldt.recipes.impala import IMPALA
from veldt.recipes.matrix import cell, reasons
from veldt.recipes.policy_gradient import A2C, A3C, APPO, PPO
from veldt.recipes.recipe import RECIPES, Recipe, derived_of, find
from veldt.recipes.value import ASYNC_DQN, C51, DDPG, DQN, RAINBOW

__all__ = ["RECIPES", "Recipe", "cell", "derived_of", "find", "reasons"]

RECIPES |= {
    recipe.name: recipe
    for recipe in (
        A2C,
        A3C,
        PPO,
        APPO,
        GA3C,
        DQN,
        ASYNC_DQN,
        C51,
        RAINBOW,
        GORILA,
        DDPG,
        APEX_DQN,
        APEX_DDPG,
        IMPALA,
    )
}
