"""Registries of named parts: algorithms, systems, networks and recipes, veldt's own and those of plug-ins.

A plug-in is a Python module that calls `veldt.register_algorithm` and the like when it is imported. Installed packages
name theirs as an entry point of the group `veldt.plugins`. veldt's own parts are registered in the same way, by the
module that each registry names.
"""

from __future__ import annotations

import importlib
import platform
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any, Generic, TypeVar

from veldt.errors import PluginError, UsageError, as_error, described, did_you_mean
from veldt.user_code.attribution import record_part
from veldt.user_code.import_path import load_module
from veldt.user_code.imports import for_its_functions
from veldt.user_code.module_files import find_module
from veldt.user_code.torch_state import users_torch

GROUP = "veldt.plugins"
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_OWN = "veldt."

T = TypeVar("T")

# Modules of entry points that could not be imported, and why.
broken_plugins: dict[str, str] = {}
plugin_distributions: dict[str, str] = {}  # modules of entry points that were imported, and their packages
_installed: list[str] | None = None  # modules of the entry points; None: not yet all imported
_registries: list[Registry[Any]] = []


class _Loading(threading.local):
    """What this thread imports now. Another thread that reads a registry imports it, too: so it waits for the end."""

    def __init__(self) -> None:
        self.built_in: list[str] = []  # modules of veldt's own parts, each of which may read other registries
        self.plugins = False


_loading = _Loading()


class Registry(Mapping[str, T], Generic[T]):
    """Named parts of one kind, in the order of their registration.

    The first read imports `built_in`, the module that registers veldt's own parts, and all installed plug-ins.

    Args:
        kind: what the parts are, for messages: "algorithm".
    """

    def __init__(self, kind: str, built_in: str) -> None:
        self.kind, self._built_in = kind, built_in
        self._parts: dict[str, T] = {}
        self._origins: dict[str, str] = {}
        self._is_loaded = False
        _registries.append(self)

    def add(self, name: str, part: T, origin: str) -> None:
        """Registers `part` as coming from the module `origin`, which may register it again when it is imported again.

        Raises:
            UsageError: the name is not lower-case letters, digits and dashes, or another module has registered it.
        """
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise UsageError(
                f"the {self.kind} is called {name!r}: a name is lower-case letters, digits and dashes, and begins with "
                "a letter, as 'qr-dqn'"
            )
        self._load()
        if (owner := self._origins.get(name, origin)) != origin:
            raise UsageError(
                f"{origin} registers the {self.kind} '{name}', and {owner} has registered one of that name: take "
                "another name"
            )
        self._parts[name], self._origins[name] = part, origin
        if is_plugin(origin):
            record_part(self.described(name), origin, vars(part).values())

    def find(self, name: str, given_as: str = "", or_else: str = "") -> T:
        """Returns the part of this name. UsageError, with a suggestion, for an unknown name.

        Args:
            given_as: the beginning of the message, such as "--algorithm is 'x'"; by default "no algorithm 'x'".
            or_else: what else could be given, as the end of the message.
        """
        if isinstance(name, str) and name in self:
            return self[name]
        broken = "".join(f"; {line}" for line in broken_plugins_shown())
        raise UsageError(
            f"{given_as or f'no {self.kind} {name!r}'}{did_you_mean(str(name), self)}: known are {', '.join(self)}"
            f"{or_else}{broken}"
        )

    def plugin_of(self, name: str) -> str | None:
        """Returns the module that registered this part; None if the part is veldt's own."""
        self._load()
        origin = self._origins[name]
        return origin if is_plugin(origin) else None

    def described(self, name: str) -> str:
        """Returns what messages call a plug-in's part: "algorithm 'qr-dqn' (module my_plugin)"."""
        return f"{self.kind} '{name}' (module {self._origins[name]})"

    def __getitem__(self, name: str) -> T:
        self._load()
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._parts)

    def __len__(self) -> int:
        self._load()
        return len(self._parts)

    def _load(self) -> None:
        if not self._is_loaded and self._built_in not in _loading.built_in:  # which registers its parts here
            _loading.built_in.append(self._built_in)
            try:
                importlib.import_module(self._built_in)
            finally:
                _loading.built_in.remove(self._built_in)
            self._is_loaded = True
        if not _loading.built_in:
            installed_plugins()

    def _forget(self, module: str) -> None:
        """Removes the parts that a module and its submodules have registered before its import failed."""
        for name in [n for n, origin in self._origins.items() if f"{origin}.".startswith(f"{module}.")]:
            del self._parts[name], self._origins[name]


def is_plugin(module: str) -> bool:
    """Returns whether a module that registers parts is none of veldt's own."""
    return not module.startswith(_OWN)


def registering_module() -> str:
    """Returns the name of the module that called the function that calls this one."""
    return str(sys._getframe(2).f_globals.get("__name__", "__main__"))


def installed_plugins() -> list[str]:
    """Imports the modules that installed packages name as plug-ins, once in a process. Returns their names.

    One that cannot be imported is recorded in `broken_plugins`, so that it does not break runs that do not use it.
    """
    global _installed
    if _installed is None and not _loading.plugins:  # a plug-in may read a registry when it is imported
        _loading.plugins = True
        try:
            _installed = _import_installed()
        finally:
            _loading.plugins = False
    return _installed or []


def _import_installed() -> list[str]:
    imported = []
    for entry in metadata.entry_points(group=GROUP):
        try:
            with users_torch, for_its_functions():
                importlib.import_module(entry.module)
            imported.append(entry.module)
            if entry.dist is not None:
                plugin_distributions[entry.module] = entry.dist.name
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            broken_plugins[entry.module] = described(error)
            for registry in _registries:
                registry._forget(entry.module)
            for name in [name for name in sys.modules if name.startswith(f"{entry.module}.")]:
                del sys.modules[name]  # a later import registers their parts again
    return imported


def broken_plugins_shown() -> list[str]:
    """Returns a sentence on each installed plug-in that could not be imported."""
    return [f"the plug-in {module} could not be imported ({why})" for module, why in broken_plugins.items()]


def import_plugins(modules: Iterable[str]) -> None:
    """Imports plug-ins by the names of their modules, where this process has not imported them yet.

    Raises:
        UsageError: there is no such module here, or it cannot be imported.
        PluginError: its own code raised an exception.
    """
    installed_plugins()
    for module in modules:
        if module in sys.modules:
            continue
        where = f"on {platform.node()}" if platform.node() else "here"
        if find_module(module) is None and module.endswith(".py"):
            raise UsageError(
                f"the plug-in {module!r} is a file: give the module's name, {module.removesuffix('.py')!r}"
            )
        if find_module(module) is None:
            raise UsageError(
                f"the plug-in {module!r} is not a module that Python finds {where}: install it, or run this in the "
                "directory that has its file"
            )
        with as_error(PluginError, f"the plug-in {module} failed when it was imported {where}"):
            load_module(module)
