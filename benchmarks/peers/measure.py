"""What every peer's script shares: a steady clock, and the one line of JSON that it prints."""

import json
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any


def measure(step: Callable[[], int], *, seconds: float, warmup: float) -> tuple[int, float]:
    """Call `step`, which returns the agent steps it delivered, first unmeasured and then for `seconds`."""
    _repeat(step, warmup)
    return _repeat(step, seconds)


def _repeat(step: Callable[[], int], seconds: float) -> tuple[int, float]:
    steps, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        steps += step()
    return steps, elapsed


def report(
    peer: str,
    what: str,
    *,
    steps: int,
    seconds: float,
    packages: tuple[str, ...],
    settings: dict[str, Any],
    **more: Any,
) -> None:
    """Print the result, with the versions of the packages that it depends on."""
    line = {
        "peer": peer,
        "what": what,
        "sps": round(steps / seconds, 1),
        "seconds": round(seconds, 3),
        "steps": steps,
        **more,
        "settings": settings | {"versions": {package: version(package) for package in packages}},
    }
    print(json.dumps(line), flush=True)


def process_age() -> float:
    """Seconds since this process was started: interpreter start-up and imports included (Linux only)."""
    with open("/proc/self/stat") as stat:
        # The command's name, in parentheses, may hold spaces; field 22 is the start, in ticks since boot.
        started = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def cpu_seconds() -> float:
    """Of this process and all below it, so far."""
    import psutil

    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in family)
