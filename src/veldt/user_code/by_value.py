"""Functions of the user's script, as bytes for other processes: cloudpickle, and the names that it does not find.

cloudpickle copies the globals that functions read, but not those that only the body of a class inside of a function
reads, such as `np` here:

    def make_env():
        class Env(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import cloudpickle

from veldt.user_code.imports import for_its_functions


def dumps(value: Any, *functions: Any) -> bytes:
    """Returns `value` as bytes for `loads`. `functions` are those in it; by default it is one itself."""
    chosen = [_unwrapped(each) for each in functions or (value,)]
    return cloudpickle.dumps((value, [(each, _missed(each)) for each in chosen if _is_copied(each)]))


def loads(data: bytes) -> Any:
    """Returns the value that `dumps` was given, its functions with all the globals that they read."""
    with for_its_functions():
        value, copied = cloudpickle.loads(data)
    for function, missed in copied:
        for name, each in missed.items():  # the copies of one module's functions share their globals
            function.__globals__.setdefault(name, each)
    return value


def _unwrapped(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _is_copied(function: Any) -> bool:
    """Whether it is a function that other processes cannot import, so that cloudpickle copies it."""
    if not isinstance(function, FunctionType) or function.__module__ == "__main__":
        return isinstance(function, FunctionType)
    found: Any = sys.modules.get(function.__module__ or "")
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not function


def _missed(function: FunctionType) -> dict[str, Any]:
    """The globals that class bodies read, in the function and in the functions of its module that it calls."""
    missed: dict[str, Any] = {}
    waiting, seen = [function], {function}
    while waiting:
        for code, is_class_body in _codes(waiting.pop().__code__):
            for name in code.co_names:
                each = function.__globals__.get(name)
                if is_class_body and name in function.__globals__ and _reads(code, name):
                    missed[name] = each
                if (
                    isinstance(each, FunctionType)
                    and each.__globals__ is function.__globals__
                    and each not in seen
                ):
                    waiting.append(each)
                    seen.add(each)
    return missed


def _codes(code: CodeType) -> Iterator[tuple[CodeType, bool]]:
    """The code and all that is inside of it, each with whether it is the body of a class."""
    yield code, not code.co_flags & inspect.CO_OPTIMIZED
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _reads(code: CodeType, name: str) -> bool:
    """Whether the body of a class reads `name` as a variable, and not as an attribute of another object."""
    return any(each.opname == "LOAD_NAME" and each.argval == name for each in dis.get_instructions(code))
