"""A function of the user's own, by its name: `module:function`."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from veldt.errors import UsageError, did_you_mean


def load_function(name: str, what: str) -> Callable[..., Any]:
    """The function that `module:function` names, from the working directory or from what is installed.

    Args:
        what: what the function is for, as a message calls it: "environment", "network".

    Raises:
        UsageError: there is no such module, or no such function in it. Errors of the module's own code pass through.
    """
    module_name, _, attribute = name.partition(":")
    names = [attribute, *module_name.split(".")]
    if module_name.endswith(".py") or not all(part.isidentifier() for part in names):
        raise UsageError(
            f"no {what} '{name}': write it as module:function, such as mine:make for make in mine.py"
        )
    if os.getcwd() not in sys.path:
        # A console script does not have it, and that is where the user's file is.
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise UsageError(
            f"no {what} '{name}': there is no module '{module_name}'; write it as module:function, and run this in "
            f"the directory that has {module_name.partition('.')[0]}.py, or install it"
        ) from None
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UsageError(
            f"no {what} '{name}': module '{module_name}' has no function '{attribute}'"
            f"{did_you_mean(attribute, known)}; write it as module:function"
        )
    return function


def name_of(function: Callable[..., Any]) -> str:
    """`module:function`, in angle brackets where that would not give this callable again."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    module = getattr(inner, "__module__", "__main__")
    name = getattr(inner, "__qualname__", type(inner).__name__)
    again = getattr(sys.modules.get(module), name, None) is function or "<" in name
    return f"{module}:{name}" if again else f"{module}:<{name}>"


def can_be_loaded(name: str) -> bool:
    """Whether a name that `name_of` gave leads back to a callable; for one of a script, whether that is running."""
    module, _, attribute = name.partition(":")
    if "<" in name:
        return False
    return module != "__main__" or callable(getattr(sys.modules["__main__"], attribute, None))
