"""Whether an algorithm fits a system and an action space, decided by the capabilities that both declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veldt.algorithms.capabilities import (
    CAPABILITIES,
    CONTINUOUS,
    DISCRETE,
    MULTI_DISCRETE,
    OF_ACTIONS,
    RECURRENT,
)
from veldt.algorithms.registry import ALGORITHMS
from veldt.config.recipe_registry import plain_recipes
from veldt.config.system_registry import SYSTEMS
from veldt.config.system_settings import RolesConfig
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError

# What advice calls the actions of each capability.
_ACTIONS = {DISCRETE: "discrete", MULTI_DISCRETE: "multi-discrete", CONTINUOUS: "continuous"}


@dataclass(frozen=True)
class Incompatibility:
    """`why` says what a system needs and an algorithm lacks, `instead` what to do; both are parts of a sentence."""

    why: str
    instead: str


def incompatibility(system: str, algorithm: str) -> Incompatibility | None:
    """Returns why the algorithm cannot learn in the system; None where it can."""
    missing = sorted(SYSTEMS.find(system).needs - ALGORITHMS.find(algorithm).capabilities)
    if not missing:
        return None
    able = [name for name in ALGORITHMS if SYSTEMS[system].needs <= ALGORITHMS[name].capabilities]
    return Incompatibility(
        f"the system {system} needs an algorithm that {CAPABILITIES[missing[0]]} (capability '{missing[0]}')",
        f"take {'one of ' if len(able) > 1 else ''}{by_actions({name: name for name in able}, algorithm)}"
        if able
        else "no algorithm here does",
    )


def check_fits(system: str, algorithm: str) -> None:
    """Raises UsageError where the algorithm cannot learn in the system."""
    if (found := incompatibility(system, algorithm)) is not None:
        raise UsageError(f"{algorithm} does not fit: {found.why}; {found.instead}")


def check_actions(algorithm: str, action: ActionSpec) -> None:
    """Raises UsageError where the algorithm cannot choose the env's actions."""
    needed, actions = OF_ACTIONS[action.kind]
    if needed not in ALGORITHMS[algorithm].capabilities:
        raise UsageError(
            f"{algorithm} cannot choose this environment's actions, which are {actions}: take a recipe that can "
            f"({', '.join(_recipes_with(needed))}), or wrap the environment in another action space "
            "(gymnasium.wrappers.TransformAction)"
            + (
                f"; if {algorithm} can, add '{needed}' to its capabilities"
                if ALGORITHMS.plugin_of(algorithm)
                else ""
            )
        )


def check_recurrent(algorithm: str, recurrent: str) -> None:
    """Raises UsageError where the algorithm cannot train a recurrent network; `recurrent` says what makes it so."""
    if RECURRENT not in ALGORITHMS[algorithm].capabilities:
        raise UsageError(
            f"{recurrent}, and {algorithm} learns from steps out of their order, which a recurrent network cannot: "
            f"leave it out, or take a recipe that can ({by_actions(_recipes_with(RECURRENT), algorithm)})"
        )


def recipes_with_setting(name: str) -> dict[str, str]:
    """Returns the recipes that have the setting and whose system does not refuse it, each with its algorithm."""
    return {recipe.name: recipe.algorithm for recipe in plain_recipes().values() if _accepts(recipe, name)}


def _accepts(recipe: Any, name: str) -> bool:
    roles: RolesConfig = SYSTEMS[recipe.system].settings()
    has_replay = "replay" in recipe.sections()
    return (
        name in recipe.setting_names()
        and not roles.statistics_refusals.get(name)
        and (has_replay or name not in roles.only_with_replay())
    )


def by_actions(algorithms: Mapping[str, str], chosen: str) -> str:
    """Returns the names of `algorithms` as advice to somebody who has chosen an algorithm, whatever the env's actions.

    Those whose algorithm cannot choose all that the chosen one can are said to be for some kinds of actions.

    Args:
        algorithms: the algorithm that each name stands for.
    """
    groups: dict[str, list[str]] = {}
    for name, algorithm in algorithms.items():
        able = ALGORITHMS[algorithm].capabilities
        missing = _ACTIONS.keys() & ALGORITHMS[chosen].capabilities - able
        kinds = " or ".join(kind for capability, kind in _ACTIONS.items() if capability in able)
        groups.setdefault(f" for {kinds} actions" if missing and kinds else "", []).append(name)
    return "; ".join(
        ", ".join(names) + which for which, names in sorted(groups.items(), key=lambda one: bool(one[0]))
    )


def _recipes_with(capability: str) -> dict[str, str]:
    """Returns the recipes whose algorithm has the capability, each with its algorithm."""
    return {
        name: recipe.algorithm
        for name, recipe in plain_recipes().items()
        if capability in ALGORITHMS[recipe.algorithm].capabilities
    }
