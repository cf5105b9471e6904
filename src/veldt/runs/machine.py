"""Describes the machine of a run: processor, memory, system, versions. Written into every run's config.json."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

_OF_EVERY_RUN = ("veldt", "torch", "gymnasium", "numpy", "numba")
# What simulates environments; box2d-py is the older name of box2d.
ENGINES = ("ale-py", "mujoco", "box2d", "box2d-py", "jax")


def describe_machine() -> dict[str, str | int]:
    """Returns processor name, number of cores, memory in GB (decimal), operating system and host name."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "machine_cores": os.cpu_count() or 1,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.platform(terse=True),
        "host": platform.node(),
    }


def versions(others: Iterable[str] = ()) -> dict[str, str]:
    """Returns the versions of Python, of the packages on which every run's results depend, and of `others`.

    A package that is not installed is left out.
    """
    found = {"python": platform.python_version()}
    for package in (*_OF_EVERY_RUN, *others):
        # A name from a config.json may be no name at all.
        with contextlib.suppress(metadata.PackageNotFoundError, ValueError):
            found[package] = metadata.version(package)
    return found


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
