"""Imported by the fork server: makes it exit at once when it is no longer needed.

It has nothing to clean up except the folder of its socket, where the process that has started it was killed, and the
processes that an environment in one of its processes has started and not ended: it is their parent from then on.
Unloading its modules would take a second of CPU time after the run.
"""

from __future__ import annotations

import atexit
import errno
import os
import sys
import warnings
from functools import partial
from types import TracebackType

from veldt.runtime.descendants import adopt_orphans, end_descendants
from veldt.runtime.endings import NO_MORE_CODE
from veldt.runtime.fork_server.safe_path import forget_safe_path
from veldt.runtime.fork_server.socket_folder import own_folder, remove_if_left

_code = 0  # of the server's own end


def _leave(server: int, folder: str) -> None:
    if os.getpid() == server:  # not in a process forked from it
        end_descendants()
        remove_if_left(folder)
        os._exit(_code)


def _excepthook(
    server: int, kind: type[BaseException], error: BaseException, at: TracebackType | None
) -> None:
    """Shows an error of a process forked from the server. The end of the server itself, which fails where too few files
    may be open, is reported by the process that started it."""
    global _code
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:  # of `os.fork`
        _code = NO_MORE_CODE
    if os.getpid() != server:
        sys.__excepthook__(kind, error, at)


adopt_orphans()
# Said by `multiprocessing` of each of them that ends.
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
sys.excepthook = partial(_excepthook, os.getpid())
atexit.register(_leave, os.getpid(), own_folder())
forget_safe_path()
