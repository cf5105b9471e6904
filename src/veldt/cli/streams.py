"""Standard output and error as a user may have left them: closed, full, or a terminal that has gone."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TextIO

from veldt.errors import VeldtError

# The reader (`| head`) or the terminal has gone, which is within its rights.
_GONE = (errno.EPIPE, errno.EIO)


def open_closed_streams() -> None:
    """Puts the null device where a standard stream was closed (`>&-`).

    Else the next file that is opened, the run's lock say, would get its number, and what is printed.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115 - as long as the process


def show(text: str) -> None:
    """Prints the result of a command on standard output. VeldtError if it cannot be written to.

    Only here: a broken pipe anywhere else, a worker's say, is a failure like any other.
    """
    try:
        if text:
            print(text)
        sys.stdout.flush()
    except OSError as error:
        _silence(sys.stdout)
        if error.errno not in _GONE:
            raise VeldtError(
                f"cannot print the result ({error.strerror}): send it elsewhere; what was asked for is done"
            ) from error


def complain(text: str) -> None:
    """Prints on standard error, as far as there is one."""
    try:
        print(text, file=sys.stderr)
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Drops what is still buffered, which would fail once more at the interpreter's end (exit code 120)."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
