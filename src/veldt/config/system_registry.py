"""The registry of systems."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from veldt.algorithms.capabilities import CAPABILITIES, REPLAY
from veldt.config.system_settings import RolesConfig
from veldt.errors import PluginError, UsageError, did_you_mean
from veldt.registry import Registry, registering_module
from veldt.runtime.activity import importing
from veldt.setting_metadata import check_settings_class
from veldt.user_code.import_path import load_function


@dataclass(frozen=True)
class SystemEntry:
    """A system: the class of its settings, the function that makes its graph, and the capabilities that it needs."""

    settings: type[RolesConfig]
    graph: str | Callable[..., Any]
    needs: frozenset[str]

    def load_graph(self) -> Callable[..., Any]:
        """Returns the function that makes the graph, imported if it was given by its name.

        PluginError if its module fails.
        """
        if not isinstance(self.graph, str):
            return self.graph
        with importing(PluginError, f"graph {self.graph}"):
            return load_function(self.graph, "graph")


SYSTEMS: Registry[SystemEntry] = Registry("system", "veldt.systems.builtin")


def register_system(
    name: str,
    settings: type[RolesConfig],
    graph: str | Callable[..., Any],
    needs: Collection[str] = (),
) -> None:
    """Makes a system known by `name`, so that recipes can use it.

    Call it where a module of yours is imported, so that every process of a run that imports the module knows the
    system.

    Args:
        name: lower-case letters, digits and dashes.
        settings: a frozen dataclass, a subclass of `veldt.config.system_settings.RolesConfig`. Each field becomes a
            flag.
        graph: a function `graph(run_plan, run=None, checkpoint=None)` that returns the `Graph` of the system's roles
            and edges, or its name, `module:function`, to import it only when a run begins.
        needs: the capabilities that an algorithm must have (`veldt.algorithms.capabilities.CAPABILITIES`).

    Raises:
        UsageError: the settings are not of the required kind, the needs are no names or one is unknown, or another
            module has registered a system of this name.
    """
    given: Any = needs
    is_list = isinstance(given, Collection) and not isinstance(given, str)
    if not (is_list and all(isinstance(one, str) for one in given)):
        raise UsageError(
            f"the system {name} needs {given!r}: it must be a list of capabilities, such as ['{REPLAY}']"
        )
    needs = frozenset(given)
    if unknown := sorted(needs - CAPABILITIES.keys()):
        raise UsageError(
            f"the system {name} needs the capability '{unknown[0]}'{did_you_mean(unknown[0], CAPABILITIES)}: known are "
            f"{', '.join(CAPABILITIES)}"
        )
    check_settings_class(f"the system {name}", settings, RolesConfig)
    if not (callable(graph) or isinstance(graph, str)):
        raise UsageError(
            f"the graph of the system {name} is {graph!r}: it must be a function or 'module:function'"
        )
    SYSTEMS.add(name, SystemEntry(settings, graph, needs), registering_module())
