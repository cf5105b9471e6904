"""The matrix algorithms x systems: which pairs run, under which name, and why the others cannot."""

from __future__ import annotations

from veldt.config.train_config import ALGORITHMS, SYSTEMS, System, incompatibility
from veldt.recipes.recipe import RECIPES

RUNS, REFUSED = "yes", "-"


def cell(algorithm: str, system: System) -> str:
    """Returns the names of this pair's recipes; without one, whether it runs by --algorithm in another recipe."""
    if incompatibility(system, algorithm) is not None:
        return REFUSED
    names = [name for name, own in RECIPES.items() if (own.algorithm, own.system) == (algorithm, system)]
    return ", ".join(names) or RUNS


def reasons() -> list[str]:
    """Returns a sentence for each reason why pairs cannot run."""
    refused: dict[tuple[System, str], list[str]] = {}
    for system in SYSTEMS:
        for algorithm in ALGORITHMS:
            if (found := incompatibility(system, algorithm)) is not None:
                refused.setdefault((system, found.why), []).append(algorithm)
    return [f"{', '.join(names)} in {system}: {why}" for (system, why), names in refused.items()]
