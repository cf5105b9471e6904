"""A function of the user's own, by its name: `module:function`."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from veldt.errors import UsageError, did_you_mean
from veldt.user_code.module_files import find_module


def load_function(name: str, what: str) -> Callable[..., Any]:
    """The function that `module:function` names, from the working directory or from what is installed.

    Args:
        what: what the function is for, as a message calls it: "environment", "network".

    Raises:
        UsageError: there is no such module, or no such function in it. Errors of the module's own code pass through.
    """
    module_name, attribute = split_name(name, what)
    found, cwd = find_module(module_name), os.getcwd()
    if found is not None and found.root == os.path.realpath(cwd) and cwd not in sys.path:
        # A console script does not have it, and that is where the user's file is. For a function from elsewhere it
        # stays out, else what that imports in its turn could come from the directory of somebody else's run.
        sys.path.insert(0, cwd)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise no_module(name, what) from None
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UsageError(
            f"no {what} '{name}': module '{module_name}' has no function '{attribute}'"
            f"{did_you_mean(attribute, known)}; write it as module:function"
        )
    return function


def split_name(name: str, what: str) -> tuple[str, str]:
    """Module and function of `module:function`; UsageError where it is not written so.

    `what` as for `load_function`.
    """
    module, _, attribute = name.partition(":")
    if module.endswith(".py") or not all(part.isidentifier() for part in (attribute, *module.split("."))):
        raise UsageError(
            f"no {what} '{name}': write it as module:function, such as mine:make for make in mine.py"
        )
    return module, attribute


def no_module(name: str, what: str, module: str | None = None) -> UsageError:
    """The error that there is no module of that name, `what` as for `load_function`."""
    module = module or name.partition(":")[0]
    return UsageError(
        f"no {what} '{name}': there is no module '{module}'; write it as module:function, and run this in the "
        f"directory that has {module.partition('.')[0]}.py, or install it"
    )


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
