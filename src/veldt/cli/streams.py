"""Standard output and error, which may be closed or full, or belong to a closed terminal."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import TextIO

from veldt.errors import VeldtError

# The reader (`| head`) or the terminal has closed, which is no failure.
_GONE = (errno.EPIPE, errno.EIO)


def prepare_streams() -> None:
    """Lets all texts be printed, and opens the null device for each standard stream that was closed (`>&-`).

    Else the next opened file (the run's lock, say) would get the stream's number, and the printed text. What the
    encoding of standard output lacks is printed as an escape: ± in ASCII, or a path that is not UTF-8.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115 - open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in (None, "strict"):
        sys.stdout.reconfigure(errors="backslashreplace")


def show(text: str) -> None:
    """Prints the result of a command on standard output. VeldtError if it cannot be written.

    Only here a broken pipe is accepted; anywhere else (a worker's, say) it is a failure.
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
    """Prints on standard error, if it is open."""
    try:
        print(text, file=sys.stderr)
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Redirects the stream to the null device: flushing its buffer would fail again at exit (exit code 120)."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
