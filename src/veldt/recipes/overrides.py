"""The settings that a user gives by name, in the place of a recipe's; refused where the recipe has no such setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from veldt.config.fit import by_actions, recipes_with_setting
from veldt.config.ga3c_settings import Ga3cConfig
from veldt.config.impala_settings import ImpalaConfig
from veldt.config.system_settings import ApexConfig
from veldt.config.train_config import TrainConfig
from veldt.errors import UsageError, did_you_mean
from veldt.recipes.draft import NOTHING, Draft, names_of
from veldt.recipes.foreign_names import ABSENT, ENV, FOREIGN, Here
from veldt.recipes.recipe import RECIPES
from veldt.replay.settings import ReplayConfig
from veldt.setting_text import flag

_REPLAY = names_of(ReplayConfig) | {"checkpoint_replay"}  # the latter is a setting of every run
_ACTORS = names_of(ApexConfig) | names_of(Ga3cConfig) | names_of(ImpalaConfig)


def build_config(
    draft: Draft, given: Mapping[str, Any], env_kwargs: Mapping[str, Any] = NOTHING
) -> TrainConfig:
    """Returns the configuration with the user's settings instead of the recipe's. Errors as of `with_settings`."""
    _by_section(draft, given)
    return draft.build(given, env_kwargs)


def with_settings(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """Returns `config` with settings replaced by name, each in its section.

    Raises:
        UsageError: a name is not a setting of this recipe, or a value is not allowed.
    """
    replaced = {}
    for section, values in _by_section(Draft.of(config), settings).items():
        part = getattr(config, section)
        replaced[section] = dataclasses.replace(part, **values)
    return dataclasses.replace(config, **replaced)


def _by_section(draft: Draft, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Groups settings by their section of the configuration. UsageError for one that belongs to none."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        section = draft.section_of(name)
        is_here = section is not None and ("replay" in draft.classes or name != "checkpoint_replay")
        if not is_here and (why := why_no_setting(draft, name)):
            raise UsageError(why)
        if section is None:
            known = sorted(set().union(*map(names_of, draft.classes.values())))
            raise UsageError(
                f"no setting '{name}'{did_you_mean(name, known)}: see `veldt recipes {draft.recipe}`"
            )
        found.setdefault(section, {})[name] = value
    return found


def why_no_setting(draft: Draft, name: str) -> str | None:
    """Explains why this recipe lacks a setting that other recipes or libraries have; None for an unknown name."""
    if name == "system":
        return (
            f"{flag(name)} is no setting: the recipe {draft.recipe} has the system {draft.system}; take a recipe of "
            f"the system you want, and --algorithm {draft.algorithm} with it (`veldt recipes --matrix`)"
        )
    is_about_replay = "replay" not in draft.classes and name in _REPLAY
    having = {
        recipe: algorithm
        for recipe, algorithm in recipes_with_setting(name).items()
        if not (is_about_replay and "replay" not in RECIPES[recipe].sections())
    }
    if (foreign := _as_foreign(draft, name, is_known=bool(having))) is not None:
        return f"{flag(name)} is {foreign}"
    if is_about_replay:
        why = f"about a replay buffer, and {draft.algorithm} learns from fresh rollouts and keeps none"
    elif not having:
        return None
    elif draft.in_phases and name in _ACTORS:
        why = f"for actors apart from learners, and in {draft.recipe} the same process acts and learns"
    else:
        chosen = RECIPES[draft.recipe].algorithm != draft.algorithm
        beside = f" with --algorithm {draft.algorithm}" if chosen else ""
        why = f"none of {draft.recipe}'s settings{beside}"
    recipes = by_actions(having, draft.algorithm)
    return f"{flag(name)} is {why}: take a recipe that has it ({recipes}), or leave it out"


def why_fixed(
    name: str, why: str, allowed: Collection[str], stored: Callable[[], Draft | None]
) -> str | None:
    """Explains why a stored run cannot be trained with a setting that other recipes or libraries have; None for an
    unknown name.

    Args:
        why: the end of the sentence about a setting that keeps its value.
        allowed: the names that may be given.
        stored: returns the draft of the run, which decides what a foreign name is here; None if it cannot be read.
    """
    if any(name in recipe.setting_names() for recipe in RECIPES.values()):
        return f"{flag(name)} {why}"
    if name not in FOREIGN:
        return f"{flag(name)} is {ABSENT[name]}" if name in ABSENT else None
    draft = stored()
    here = (in_place_of(draft, name) if draft else None) or FOREIGN[name][0]
    if here.setting in allowed or here.is_no_setting:
        return f"{flag(name)} is {here.says or f'called {flag(here.setting)} here'}"
    return f"{flag(name)} is {'about' if here.says else 'called'} {flag(here.setting)} in veldt, which {why}"


def _as_foreign(draft: Draft, name: str, *, is_known: bool) -> str | None:
    """Explains a name that other libraries use, as the end of "--name is"; None for another name.

    Args:
        is_known: whether a recipe has a setting of this name; then only what the draft has in its place is an answer.
    """
    if (here := in_place_of(draft, name)) is not None:
        return here.says or f"called {flag(here.setting)} here"
    if is_known:
        return None
    if name in FOREIGN:
        first = FOREIGN[name][0]
        why = why_no_setting(draft, first.setting)
        return (
            f"{first.says_of_veldt}; {why}"
            if first.says
            else f"called {flag(first.setting)} in veldt, and {why}"
        )
    return ABSENT.get(name)


def in_place_of(draft: Draft, name: str) -> Here | None:
    """Returns what the draft has for a name that other libraries use; None if it has nothing, or for another name."""
    choices = FOREIGN.get(name, ())
    return next((here for here in choices if here.setting == ENV or draft.section_of(here.setting)), None)
