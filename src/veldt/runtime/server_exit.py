"""Imported by the fork server: makes it exit at once when it is no longer needed.

It has nothing to clean up, and unloading its modules would take a second of CPU time after the run.
"""

from __future__ import annotations

import atexit
import os

from veldt.runtime.safe_path import forget_safe_path


def _leave(server: int) -> None:
    if os.getpid() == server:  # not in a process forked from it
        os._exit(0)


atexit.register(_leave, os.getpid())
forget_safe_path()
