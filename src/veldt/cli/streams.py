"""Standard output and error, which may be closed or full, or belong to a closed terminal."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from veldt.errors import VeldtError
from veldt.standard_streams import discard_output, fill_closed_streams

# The reader (`| head`) or the terminal has closed, which is no failure.
_GONE = (errno.EPIPE, errno.EIO)


def prepare_streams() -> None:
    """Lets all texts be printed, also where a standard stream was closed (`>&-`).

    What the encoding of standard output lacks is printed as an escape: ± in ASCII, or a path that is not UTF-8.
    """
    fill_closed_streams()
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115 - open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Python chooses surrogateescape for a locale of ASCII: it prints any path, but no ±.
        is_ascii = sys.stdout.errors == "surrogateescape" and sys.stdout.encoding.lower() != "utf-8"
        if is_ascii or sys.stdout.errors in (None, "strict"):
            sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def kept_streams() -> Iterator[None]:
    """Undoes in the end what user code has done to Python's streams: an environment may replace or close them to be
    rid of a library's prints, and the result or the cause of a failure must still be seen. So it may with the hooks for
    errors, without which Python makes no thread."""
    hooks = sys.excepthook, threading.excepthook
    streams = sys.stdout, sys.stderr
    copies = [_copy(stream) for stream in streams]
    try:
        yield
    finally:
        kept = [_usable(stream, copy) for stream, copy in zip(streams, copies, strict=True)]
        sys.stdout, sys.stderr = kept
        if not (callable(sys.excepthook) and callable(threading.excepthook)):
            sys.excepthook, threading.excepthook = hooks


def _copy(stream: TextIO) -> int | None:
    """Returns another descriptor of what `stream` writes to; None where there is none, or no more can be opened."""
    try:
        return os.dup(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return None


def _usable(stream: TextIO, copy: int | None) -> TextIO:
    """Returns `stream`, or a new one on `copy` if it was closed, or its number has since been given to another file."""
    if copy is None:
        return stream
    try:
        if os.path.sameopenfile(stream.fileno(), copy):
            os.close(copy)
            return stream
    except (OSError, ValueError):
        pass
    try:
        return open(copy, "w", encoding="utf-8", errors="backslashreplace")  # until the process ends
    except OSError:  # closed as well
        return stream


def show(text: str) -> None:
    """Prints the result of a command on standard output. VeldtError if it cannot be written.

    Only here a broken pipe is accepted; anywhere else (a worker's, say) it is a failure.
    """
    try:
        if text:
            print(text)
        sys.stdout.flush()
    except OSError as error:
        discard_output(sys.stdout)
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
        discard_output(sys.stderr)
