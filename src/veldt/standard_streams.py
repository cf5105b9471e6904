"""Standard input, output and error where they were closed, or where nobody reads them any more."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO


def fill_closed_streams() -> None:
    """Opens the null device for each standard stream that was closed (`>&-`).

    Else the next opened file or pipe (the run's lock, say) would get the stream's number, and the printed text.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal. A program's own, which writes to two places, say, may have `write` alone."""
    asked = getattr(stream, "isatty", None)
    return asked is not None and bool(asked())


def discard_output(stream: TextIO) -> None:
    """Redirects a stream that cannot be written to the null device.

    What is left in its buffer would fail again at exit, and turn success into exit code 120. A program's own stream may
    have no descriptor.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
