"""The working directory, which the user's code may change, and may remove."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from veldt.errors import UsageError


def working_directory() -> str:
    """Returns the path of the working directory. UsageError if it has been removed."""
    if (directory := directory_or_none()) is None:
        raise UsageError(
            "the working directory of this process has been removed: change to one that exists (cd), and start again"
        )
    return directory


def directory_or_none() -> str | None:
    """Returns the path of the working directory; None if it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def back_here() -> Iterator[None]:
    """Returns to the working directory after the block.

    An environment that works in a directory of its own removes it when it is closed: processes that start without a
    working directory fail, torch among them.
    """
    here = directory_or_none()
    try:
        yield
    finally:
        if here is not None:
            with contextlib.suppress(OSError):
                os.chdir(here)
