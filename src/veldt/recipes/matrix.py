"""The matrix algorithms x systems: which pairs run, under which name, and why the others cannot."""

from __future__ import annotations

from veldt.algorithms.registry import ALGORITHMS
from veldt.config.fit import incompatibility
from veldt.config.recipe_registry import plain_recipes
from veldt.config.system_registry import SYSTEMS

RUNS, REFUSED = "yes", "-"


def cell(algorithm: str, system: str) -> str:
    """Returns the names of this pair's recipes; without one, whether it runs by --algorithm in another recipe."""
    if incompatibility(system, algorithm) is not None:
        return REFUSED
    names = [
        name for name, own in plain_recipes().items() if (own.algorithm, own.system) == (algorithm, system)
    ]
    return ", ".join(names) or RUNS


def reasons() -> list[str]:
    """Returns a sentence for each reason why pairs cannot run."""
    refused: dict[str, list[str]] = {}
    for system in SYSTEMS:
        for algorithm in ALGORITHMS:
            if (found := incompatibility(system, algorithm)) is not None:
                refused.setdefault(found.why, []).append(algorithm)
    return [f"{', '.join(names)}: {why}" for why, names in refused.items()]
