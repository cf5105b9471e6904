"""Registers veldt's own recipes, in the order of listings."""

from veldt.recipes.apex import APEX_DDPG, APEX_DQN
from veldt.recipes.ga3c import GA3C
from veldt.recipes.gorila import GORILA
from veldt.recipes.impala import IMPALA
from veldt.recipes.policy_gradient import A2C, A3C, APPO, PPO
from veldt.recipes.registration import register_recipe
from veldt.recipes.stooke_abbeel import STOOKE_ABBEEL
from veldt.recipes.value import ASYNC_DQN, C51, DDPG, DQN, RAINBOW

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
    *STOOKE_ABBEEL,
):
    register_recipe(recipe)
