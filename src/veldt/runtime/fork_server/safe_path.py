"""Keeps the working directory, possibly another person's run, out of the import path of fork servers.

`multiprocessing` starts them as `python -c`, which looks for every module in the working directory first, even for the
modules of `multiprocessing`. Processes forked from a server use the `sys.path` of the process that starts them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_VARIABLE, _OURS = "PYTHONSAFEPATH", "veldt"


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Makes Python processes that are started meanwhile leave the working directory out of `sys.path`."""
    if os.environ.get(_VARIABLE):
        yield
        return
    os.environ[_VARIABLE] = _OURS
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def forget_safe_path() -> None:
    """Called in a server: restores the usual module search for programs that an environment starts."""
    if os.environ.get(_VARIABLE) == _OURS:
        del os.environ[_VARIABLE]
