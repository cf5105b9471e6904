"""How long idle OpenMP threads spin before they sleep: set in the environment, which OpenMP reads when it is loaded.

An OpenMP thread that waits for the next parallel region runs a loop ("spins") and keeps its core; GNU OpenMP's default
lasts milliseconds. Where another process needs that core as well, the thread that has work to do waits for the spinning
one. What it costs depends on the machine and its neighbours (docs/benchmarks.md, "OpenMP's spinning").
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

SPIN_COUNT = 10_000  # turns of the loop; GNU OpenMP's default is 300,000

torch_came_first = False  # whether torch was imported before `limit_spinning` could reach it


def limit_spinning(environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets GOMP_SPINCOUNT for this process and those that it starts; a setting of the user's own stays.

    OMP_WAIT_POLICY counts as such a setting: GOMP_SPINCOUNT would override it.
    """
    global torch_came_first
    if "GOMP_SPINCOUNT" in environment or "OMP_WAIT_POLICY" in environment:
        return
    torch_came_first = "torch" in sys.modules
    environment["GOMP_SPINCOUNT"] = str(SPIN_COUNT)
