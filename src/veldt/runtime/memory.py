"""How this process's memory allocator treats large blocks."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's names for its parameters
_HUGE = 1 << 30


def keep_freed_memory() -> None:
    """Makes the C library keep large blocks for the next request instead of giving them back.

    By default every activation of some megabytes is mapped, cleared page by page by the kernel, used once and unmapped;
    training makes the same requests at every update.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _HUGE)
            mallopt(_TRIM_THRESHOLD, 2 * _HUGE - 1)
