"""Imported by the server that processes are forked from: it leaves at once when nobody needs it any more.

It has nothing to clean up, and what it has loaded would take a second of the processor to unload, after the run.
"""

from __future__ import annotations

import atexit
import os

from veldt.runtime.safe_path import forget_safe_path


def _leave(server: int) -> None:
    if os.getpid() == server:  # and nothing that was forked from it
        os._exit(0)


atexit.register(_leave, os.getpid())
forget_safe_path()
