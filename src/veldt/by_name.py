"""A function of the user's own, by its name: `module:function`."""

from __future__ import annotations

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
    if os.getcwd() not in sys.path:
        # A console script does not have it, and that is where the user's file is.
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise UsageError(
            f"no {what} '{name}': there is no module '{module_name}'; write it as module:function, "
            "with the module importable from here or installed"
        ) from None
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UsageError(
            f"no {what} '{name}': module '{module_name}' has no function '{attribute}'"
            f"{did_you_mean(attribute, known)}; write it as module:function"
        )
    return function
