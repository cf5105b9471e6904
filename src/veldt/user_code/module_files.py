"""Finds where a module would be imported from, without importing anything.

`importlib.util.find_spec("package.module")` imports the package, so it must not be used for code that is not trusted
yet.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder

from veldt.user_code.working_directory import directory_or_none


@dataclass(frozen=True)
class ModuleFiles:
    """The files that the import of a module runs.

    `files` are the packages' files and the module's own, outermost first. A module that is part of Python itself
    appears as "posix (built into Python)"; a module without a file (a namespace package, an interactive session) does
    not appear. `root` is the directory in which the import begins ("" if there is none), without symbolic links. Links
    below it are kept, so that a file and a link to it count as different files.
    """

    files: tuple[str, ...]
    root: str


def find_module(name: str) -> ModuleFiles | None:
    """Returns where `import name` would find the module now, with the working directory first on the path.

    For a module that is already imported, returns where it was imported from. None if there is no such module, or if
    `name` is not the name of one, such as "a..b" or "a:b".
    """
    parts, files, root = name.split("."), list[str](), ""
    if not all(part.isidentifier() for part in parts):
        return None
    path: Sequence[str] | None = None
    for depth in range(1, len(parts) + 1):
        if depth > 1 and path is None:  # the parent is not a package
            return None
        part = ".".join(parts[:depth])
        if (found := _imported(part) or _findable(part, path)) is None:
            return None
        file, path = found
        if file and os.path.isabs(file):
            beyond = _parent(file, depth + (path is not None))
            root = os.path.realpath(beyond)
            files.append(os.path.join(root, os.path.relpath(file, beyond)))
        elif file:
            files.append(f"{part} (built into Python)")
    return ModuleFiles(tuple(files), root)


@functools.cache
def distribution_of(name: str) -> str | None:
    """Returns the name of the installed package that a module comes from; None if it is no part of one."""
    package = name.partition(".")[0]
    if not package.isidentifier():
        return None
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.distribution(package).name
    found = find_module(package)
    if found is None or not glob.glob("*.dist-info", root_dir=found.root):
        return None
    # This reads the lists of files of all packages, which takes some tenths of a second.
    return next(iter(metadata.packages_distributions().get(package, ())), None)


# The file of a module (None if it has none), and the search path of its submodules (None if it is not a package).
_Location = tuple[str | None, Sequence[str] | None]


def _imported(name: str) -> _Location | None:
    module = sys.modules.get(name)
    if module is None:
        return None
    file = getattr(module, "__file__", None) or getattr(getattr(module, "__spec__", None), "origin", None)
    path = getattr(module, "__path__", None)
    return file, None if path is None else list(path)


def _findable(name: str, path: Sequence[str] | None) -> _Location | None:
    """Searches as `import` does: each finder in turn."""
    for finder in sys.meta_path:
        if finder is PathFinder:
            found = _on_path(name, ["", *sys.path] if path is None else path)
        else:
            spec = finder.find_spec(name, path) if hasattr(finder, "find_spec") else None
            found = None if spec is None else (spec.origin, spec.submodule_search_locations)
        if found is not None:
            return found
    return None


def _on_path(name: str, path: Iterable[str]) -> _Location | None:
    """Searches as `PathFinder` does, which needs the parent of a nested namespace package to be imported."""
    portions: list[str] = []
    for entry in path:
        finder = pkgutil.get_importer(entry or directory_or_none() or os.devnull)
        spec = finder.find_spec(name) if finder is not None else None
        if spec is not None and spec.loader is not None:
            return spec.origin, spec.submodule_search_locations
        if spec is not None:  # a directory without __init__.py counts only if nothing else is found
            portions += spec.submodule_search_locations or []
    return (None, portions) if portions else None


def _parent(path: str, levels: int) -> str:
    for _ in range(levels):
        path = os.path.dirname(path)
    return path
