"""Paper recipes: one row of a paper's tables, as what it says besides the values of another recipe."""

from __future__ import annotations

import dataclasses

from veldt.envs.source import ATARI_PREFIX
from veldt.recipes.recipe import Recipe, Settings

# Its values are the same for every game.
_GAME = f"{ATARI_PREFIX}Breakout-v5"


def paper_recipe(base: Recipe, name: str, summary: str, settings: Settings) -> Recipe:
    """Returns `base` for Atari alone, with the numbers that the paper has for this configuration.

    Args:
        settings: all that the paper says, also where `base` has the same value now.
    """
    return dataclasses.replace(
        base, name=name, summary=summary, atari={**base.atari, **settings}, small={}, presets={}, base=base
    )


def differences(recipe: Recipe) -> list[tuple[str, str, str, str, str]]:
    """Returns (setting, value, the base's value, unit, source) of each setting in which a paper recipe differs."""
    assert recipe.base is not None
    own, others = (one.table(one.config(_GAME)) for one in (recipe, recipe.base))
    return [
        (name, value, other, unit, source)
        for (name, value, unit, source), (_, other, *_) in zip(own, others, strict=True)
        if value != other
    ]
