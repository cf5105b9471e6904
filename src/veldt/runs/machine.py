"""Describes the machine of a run: processor, memory, system, versions. Written into every run's config.json."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path


def describe_machine() -> dict[str, str | int]:
    """Returns processor name, memory in GB (decimal), operating system and host name."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.platform(terse=True),
        "host": platform.node(),
    }


def versions() -> dict[str, str]:
    """Returns the versions of the packages on which a run's results depend."""
    found = {"python": platform.python_version()}
    for package in ("veldt", "torch", "gymnasium", "numpy", "numba", "ale-py"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
