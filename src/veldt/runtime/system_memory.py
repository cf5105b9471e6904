"""This process's memory: the allocator's treatment of large blocks, and the memory still available."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's names for its parameters
_HUGE = 1 << 30


def disable_malloc_trim() -> None:
    """Makes the C library keep large blocks for the next request instead of returning them to the system.

    By default every activation of some megabytes is mapped, zeroed page by page by the kernel, used once and unmapped,
    although training makes the same requests at every update.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _HUGE)
            mallopt(_TRIM_THRESHOLD, 2 * _HUGE - 1)


def available_memory() -> int:
    """Returns the bytes still available: the machine's, or what the control groups of this process still allow."""
    import psutil  # only a run that keeps much asks

    return min([psutil.virtual_memory().available, *_left_by_groups(Path("/proc/self/cgroup"))])


def _left_by_groups(membership: Path, root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """Returns the bytes available under each control group limit (version 2); the kernel can free cached files."""
    try:
        (line,) = (line for line in membership.read_text().splitlines() if line.startswith("0::"))
    except (OSError, ValueError):
        return []
    group = root / line[3:].lstrip("/")
    left = []
    for folder in (group, *group.parents):
        if not folder.is_relative_to(root):
            break
        try:
            limit, used = ((folder / name).read_text() for name in ("memory.max", "memory.current"))
            statistics = dict(entry.split() for entry in (folder / "memory.stat").read_text().splitlines())
            cached = sum(int(statistics[f"{kind}_file"]) for kind in ("active", "inactive"))
            left.append(int(limit) - int(used) + cached)
        except (OSError, ValueError):  # no such file, or no limit ("max")
            continue
    return left
