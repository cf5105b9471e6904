"""The processes of a command that was started in a session of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil


def session(leader: int) -> Iterator[psutil.Process]:
    """Yields the living processes of the session that the process `leader` has begun."""
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
