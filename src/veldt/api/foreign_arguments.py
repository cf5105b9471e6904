"""Answers keyword arguments of other libraries that a function of the API does not have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from veldt.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


def answers(answer: Callable[[str], str | None]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a function: an argument that it lacks is refused with the sentence of `answer`, if there is one.

    Without a sentence the call is made, and Python refuses the argument, or the function takes it as a setting.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            for name in named:
                if name not in parameters and (sentence := answer(name)):
                    raise UsageError(sentence)
            return function(*arguments, **named)

        return call

    return decorated
