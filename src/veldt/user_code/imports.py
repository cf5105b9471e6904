"""Refuses to train while a module of the user's is imported for one of its functions.

A script needs no guard for a training at its end: no process of the run executes the script again. But a module whose
functions are used, as by `--env mine:make`, is imported by every process of a run, and each would begin its trainings.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from veldt.errors import UsageError


class _Imports(threading.local):
    """How many imports of user code are going on in this thread, one within the other."""

    depth = 0


_imports = _Imports()


@contextlib.contextmanager
def for_its_functions() -> Iterator[None]:
    """Says that what the block imports is imported for its functions."""
    _imports.depth += 1
    try:
        yield
    finally:
        _imports.depth -= 1


def refuse_training_in_import() -> None:
    """Raises UsageError where a module trains as it is imported for its functions."""
    if _imports.depth == 0:
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "a module"
    raise UsageError(
        f"{where} begins a training while it is imported for one of its functions, which every process of a run does: "
        'put the training below `if __name__ == "__main__":`, or the functions into a module of their own'
    )
