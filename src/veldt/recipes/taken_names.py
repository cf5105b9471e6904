"""Refuses a plug-in's setting whose name something else in the same run has: a setting is given by its name alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from veldt.algorithms.registry import ALGORITHMS
from veldt.config.system_registry import SYSTEMS
from veldt.errors import UsageError

# Arguments of `train`, `resume` and the command line that are no settings.
ARGUMENTS = frozenset(
    {
        "algorithm",
        "callbacks",
        "cluster",
        "debug",
        "env",
        "env_kwargs",
        "graph",
        "help",
        "loggers",
        "plugin",
        "quiet",
        "recipe",
        "run",
        "run_dir",
        "trust",
    }
)


def check_names(algorithm: str, system: str, classes: Mapping[str, type[Any]]) -> None:
    """Raises UsageError where a setting of the algorithm or the system has a name that is taken, also by `--no-NAME` of
    a switch.

    Args:
        classes: the settings class of each section of the run.
    """
    plugins = {"learn": ALGORITHMS.plugin_of(algorithm), "roles": SYSTEMS.plugin_of(system)}
    parts = {"learn": f"the algorithm {algorithm}", "roles": f"the system {system}"}
    owners = dict.fromkeys(ARGUMENTS, "veldt, for an argument that is no setting,")
    # Those of plug-ins come last, so that it is theirs that are refused.
    for section in sorted(classes, key=lambda section: plugins.get(section) is not None):
        taken_here: dict[str, str] = {}
        for name, flags in _flags_of(classes[section]).items():
            if taken := sorted(flags & owners.keys()):
                raise UsageError(
                    f"the plug-in {plugins.get(section)} has a setting '{name}' for {parts.get(section)}, and "
                    f"{owners[taken[0]]} has the name '{taken[0]}' already: take another name"
                )
            taken_here |= dict.fromkeys(flags, parts.get(section, f"veldt's {classes[section].__name__}"))
        owners |= taken_here


def _flags_of(cls: type[Any]) -> dict[str, set[str]]:
    """Returns the flags of each setting of a settings class, as names."""
    return {
        field.name: {field.name, f"no_{field.name}"} if isinstance(field.default, bool) else {field.name}
        for field in dataclasses.fields(cls)
    }
