"""Imported by a fork server: the system lets it start no further process."""

from __future__ import annotations

import errno
import os


def _fork() -> int:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


os.fork = _fork
