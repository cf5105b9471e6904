"""Loads a function of the user by its name, `module:function`."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from veldt.errors import UsageError, did_you_mean
from veldt.user_code.imports import for_its_functions
from veldt.user_code.module_files import find_module
from veldt.user_code.torch_state import users_torch
from veldt.user_code.working_directory import directory_or_none


def load_function(name: str, what: str) -> Callable[..., Any]:
    """Loads the function `module:function` from the working directory or from an installed package.

    Args:
        what: the purpose of the function, as messages name it: "environment", "network".

    Raises:
        UsageError: the module or the function does not exist. Errors of the module's own code pass through:
            see `veldt.runtime.activity.importing`.
    """
    module_name, attribute = split_name(name, what)
    module = load_named_module(module_name, name, what)
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        has = f"has no function '{attribute}'{did_you_mean(attribute, known)}; write it as module:function"
        if isinstance(function, ModuleType):
            has = f"has a module '{attribute}', not a function: write it as {function.__name__}:function"
        elif hasattr(module, attribute):
            has = f"has '{attribute}', of type {type(function).__name__}, not a function; write it as module:function"
        raise UsageError(f"no {what} '{name}': module '{module_name}' {has}")
    return function


def call_refused(function: Callable[..., Any]) -> str:
    """Returns the end of a message where a function of the user cannot be called with the run's directory, else ""."""
    try:
        inspect.signature(function).bind(Path())
    except TypeError:
        return "; it is called with one argument, the run's directory (a pathlib.Path)"
    except ValueError:  # some functions written in C have no signature
        return ""
    return ""


def load_module(name: str) -> ModuleType:
    """Imports a module from the working directory or from an installed package. Errors of its code pass through."""
    found, cwd = find_module(name), directory_or_none()
    if found is not None and cwd is not None and found.root == os.path.realpath(cwd) and cwd not in sys.path:
        # A console script's path lacks the working directory, where the user's file is. For a module from elsewhere
        # the directory is not added: the module's own imports could then come from another person's run directory.
        sys.path.insert(0, cwd)
    with users_torch, for_its_functions():
        return importlib.import_module(name)


def load_named_module(module: str, name: str, what: str) -> ModuleType:
    """Imports the module of `name`, as `load_module` does; `what` as for `load_function`.

    Raises:
        UsageError: there is no such module. Errors of the module's own code pass through.
    """
    try:
        return load_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise no_module(name, what) from None


def split_name(name: str, what: str) -> tuple[str, str]:
    """Splits `module:function` into module and function; UsageError for another format.

    `what` as for `load_function`.
    """
    module, _, attribute = name.partition(":")
    if module.endswith(".py") or not all(part.isidentifier() for part in (attribute, *module.split("."))):
        example = "module:function, such as mine:make for make in mine.py"
        if module.endswith(".py") and attribute.isidentifier():
            example = f"{Path(module).stem}:{attribute}, and run this in the directory of {Path(module).name}"
        raise UsageError(f"no {what} '{name}': write it as {example}")
    return module, attribute


def no_module(name: str, what: str, module: str | None = None) -> UsageError:
    """Returns the error that there is no module of that name; `what` as for `load_function`."""
    module = module or name.partition(":")[0]
    return UsageError(
        f"no {what} '{name}': there is no module '{module}'; write it as module:function, and run this in the "
        f"directory that has {module.partition('.')[0]}.py, or install it"
    )


def name_of(function: Callable[..., Any]) -> str:
    """Returns `module:function`, with angle brackets if the name does not lead back to this callable."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    module = getattr(inner, "__module__", "__main__")
    name = getattr(inner, "__qualname__", type(inner).__name__)
    again = getattr(sys.modules.get(module), name, None) is function or "<" in name
    return f"{module}:{name}" if again else f"{module}:<{name}>"


def can_be_loaded(name: str) -> bool:
    """Whether a name from `name_of` leads back to a callable; for a function of a script, only while that runs."""
    module, _, attribute = name.partition(":")
    if "<" in name:
        return False
    return module != "__main__" or callable(getattr(sys.modules["__main__"], attribute, None))
