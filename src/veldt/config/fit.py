"""Whether an algorithm fits a system and an action space, decided by the capabilities that both declare."""

from __future__ import annotations

from dataclasses import dataclass

from veldt.algorithms.capabilities import CAPABILITIES, OF_ACTIONS, RECURRENT
from veldt.algorithms.registry import ALGORITHMS
from veldt.config.recipe_registry import plain_recipes
from veldt.config.system_registry import SYSTEMS
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError


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
        _take(able) if able else "no algorithm here does",
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
            f"leave it out, or take a recipe that can ({', '.join(_recipes_with(RECURRENT))})"
        )


def recipes_with_setting(name: str) -> list[str]:
    """Returns the names of the recipes that have the setting and whose system does not refuse it."""
    return [
        recipe.name
        for recipe in plain_recipes().values()
        if name in recipe.setting_names()
        and not SYSTEMS[recipe.system].settings().statistics_refusals.get(name)
    ]


def _take(names: list[str]) -> str:
    """Returns the advice to take one of these algorithms."""
    return f"take {names[0]}" if len(names) == 1 else f"take one of {', '.join(names)}"


def _recipes_with(capability: str) -> list[str]:
    """Returns the names of the recipes whose algorithm has the capability."""
    return [
        name
        for name, recipe in plain_recipes().items()
        if capability in ALGORITHMS[recipe.algorithm].capabilities
    ]
