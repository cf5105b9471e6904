"""Functions that Numba compiles to machine code, which is kept on disk for later processes where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Returns a decorator that compiles a function without the interpreter's lock, when it is called first.

    The code is kept beside the module's file, or in the user's cache, or where NUMBA_CACHE_DIR says. In a container
    whose user can write to none of these, each process compiles the function for itself.

    Args:
        options: further ones of `numba.njit`.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # "no locator available": there is no such directory
            return numba.njit(nogil=True, **options)(function)

    return compiled
