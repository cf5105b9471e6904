"""Servers that processes are forked from do not import from the working directory, which may be somebody else's run.

`multiprocessing` starts them as `python -c`, which looks for every module in the working directory first, those of
`multiprocessing` itself included. What processes forked from them import by is the `sys.path` of whoever asks for them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_VARIABLE, _OURS = "PYTHONSAFEPATH", "veldt"


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Python that is started meanwhile leaves the working directory out of its `sys.path`."""
    if os.environ.get(_VARIABLE):
        yield
        return
    os.environ[_VARIABLE] = _OURS
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def forget_safe_path() -> None:
    """Called in a server: programs that an environment starts find their modules as ever."""
    if os.environ.get(_VARIABLE) == _OURS:
        del os.environ[_VARIABLE]
