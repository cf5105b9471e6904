"""Registers recipes, and finds the plug-ins that a configuration depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from veldt.algorithms.registry import ALGORITHMS
from veldt.config.fit import check_fits
from veldt.config.system_registry import SYSTEMS
from veldt.config.train_config import TrainConfig
from veldt.envs.source import ATARI_PREFIX
from veldt.errors import UsageError, did_you_mean
from veldt.networks.registry import NETWORKS
from veldt.recipes.env_family import FAMILIES
from veldt.recipes.recipe import RECIPES, Recipe, Settings, Sourced
from veldt.recipes.taken_names import check_names
from veldt.registry import is_plugin, registering_module
from veldt.replay.sampling_registry import STRATEGIES
from veldt.setting_metadata import check_type
from veldt.setting_text import shown

# Names of environments without a preset: of a game, and of what is none.
_ANY_GAME, _ANY_OTHER = f"{ATARI_PREFIX}Breakout-v5", "any"


def register_recipe(recipe: Recipe) -> None:
    """Makes a recipe known by its name: to `veldt train`, `veldt recipes` and the matrix.

    Raises:
        UsageError: it is no Recipe, or a part of it is of another type; its algorithm or system is unknown, the two do
            not fit or have settings of one name; the recipe sets a setting that they do not have, gives a value without
            a source or one that is not allowed, or has a preset for an unknown environment; another module has
            registered a recipe of this name.
    """
    _check_parts(recipe)
    ALGORITHMS.find(recipe.algorithm, f"the recipe {recipe.name} has the algorithm '{recipe.algorithm}'")
    SYSTEMS.find(recipe.system, f"the recipe {recipe.name} has the system '{recipe.system}'")
    check_fits(recipe.system, recipe.algorithm)
    check_names(recipe.algorithm, recipe.system, recipe.sections())
    known = recipe.setting_names()
    if unknown := sorted(set().union(*_all_settings(recipe)) - known):
        named = ", ".join(f"'{name}'{did_you_mean(name, known)}" for name in unknown)
        raise UsageError(
            f"the recipe {recipe.name} sets {named}, which neither {recipe.algorithm} nor the system {recipe.system} "
            "has"
        )
    _check_sources(recipe)
    for key in recipe.presets:
        _check_preset(recipe.name, key)
    origin = registering_module()
    if is_plugin(origin):  # those of veldt's own are tested, and would cost each start some 10 ms
        _check_values(recipe)
    RECIPES.add(recipe.name, recipe, origin)


def _check_parts(recipe: Any) -> None:
    """Raises UsageError for what is no recipe, or has a part that all further checks could not read."""
    if not isinstance(recipe, Recipe):
        raise UsageError(
            f"register_recipe was given {shown(recipe)}: it must be a recipe, veldt.recipes.Recipe(name=..., "
            "algorithm=..., ...)"
        )
    for part in ("name", "algorithm", "system", "summary"):
        check_type(f"{part} of the recipe {recipe.name}", getattr(recipe, part), str)
    check_type(f"presets of the recipe {recipe.name}", recipe.presets, Mapping[object, Any])
    check_type(f"base of the recipe {recipe.name}", recipe.base, Recipe | None)
    named = {"atari": recipe.atari, "small": recipe.small}
    named |= {f"the preset {key!r}": preset for key, preset in recipe.presets.items()}
    for what, settings in named.items():
        check_type(f"{what} of the recipe {recipe.name}", settings, Mapping[str, Sourced])


def _check_sources(recipe: Recipe) -> None:
    for name, setting in (item for settings in _all_settings(recipe) for item in settings.items()):
        if not isinstance(setting, Sourced):
            raise UsageError(
                f"the recipe {recipe.name} sets '{name}' to {setting!r}, a value without a source: give "
                f"veldt.Sourced({setting!r}, 'where the value comes from')"
            )
        if not (isinstance(setting.source, str) and setting.source):
            raise UsageError(
                f"the recipe {recipe.name} sets '{name}' with the source {shown(setting.source)}: it must be a string "
                "that says where the value comes from"
            )


def _check_preset(recipe: str, key: Any) -> None:
    """Raises UsageError for a key of `presets` that no env would have."""
    if not isinstance(key, str):
        raise UsageError(
            f"the recipe {recipe} has a preset for {key!r}: it must be a string, the name of environments"
        )
    if key.startswith(ATARI_PREFIX):
        raise UsageError(
            f"the recipe {recipe} has a preset for {key!r}: ALE's games have the values of atari instead"
        )
    # An env of the user's own is named by its function, module:function, which need not be importable here.
    known = {*FAMILIES, *gymnasium.registry}
    if key not in known and ":" not in key:
        raise UsageError(
            f"the recipe {recipe} has a preset for {key!r}{did_you_mean(key, known)}: it must be a family of "
            f"environments ({', '.join(FAMILIES)}), the id of an environment that Gymnasium has registered (import the "
            "package that registers it before), or module:function"
        )


def _check_values(recipe: Recipe) -> None:
    """Raises UsageError for a value which is not allowed, alone or beside the others for the same environments."""
    envs = {"values of atari that are": _ANY_GAME}
    if recipe.base is None:  # a paper recipe has values for Atari alone
        envs |= {"values of small that are": _ANY_OTHER}
        envs |= {f"a preset for {key!r} that is": key for key in recipe.presets}
    for what, env in envs.items():
        try:
            recipe.config(env)
        except UsageError as error:
            raise UsageError(f"the recipe {recipe.name} has {what} not allowed: {error}") from None


def _all_settings(recipe: Recipe) -> list[Settings]:
    return [recipe.atari, recipe.small, *recipe.presets.values()]


def plugins_of(config: TrainConfig) -> tuple[str, ...]:
    """Returns the modules of the plug-ins that registered what `config` names, sorted; `__main__` is the script."""
    found = {
        RECIPES.plugin_of(config.recipe) if config.recipe in RECIPES else None,
        ALGORITHMS.plugin_of(config.algorithm),
        SYSTEMS.plugin_of(config.system),
        NETWORKS.plugin_of(config.network.network) if config.network.network in NETWORKS else None,
        STRATEGIES.plugin_of(config.replay.replay) if config.replay is not None else None,
    }
    return tuple(sorted(module for module in found if module is not None))
