"""The memory of a run's processes, and the cores that they use."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from veldt.tracking import resource_usage

_MIB = 2**20
# Three children have the 64 MiB that their parent had when they were forked; the last has as much of its own.
CHILDREN = """
import os, signal
from veldt.tracking import resource_usage
from veldt.tracking.resource_usage import ResourceUsage
resource_usage._LEAST_SECONDS = 0.0
usage, block = ResourceUsage(), bytearray(b"x") * (64 << 20)
print(usage.metrics()["system/memory_bytes"])
read, write = os.pipe()
children = []
for number in range(3):
    children.append(os.fork())
    if not children[-1]:
        own = bytearray(b"x") * (64 << 20) if number == 2 else None
        os.write(write, b"x")
        signal.pause()
    os.read(read, 1)
print(usage.metrics()["system/memory_bytes"])
for child in children:
    os.kill(child, signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which pages are shared")
def test_memory_that_forked_processes_share_counts_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=True, timeout=60
    )
    before, after = map(float, done.stdout.split())
    assert before > 64 * _MIB and 56 * _MIB < after - before < 96 * _MIB


def test_what_was_measured_is_returned_again_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(resource_usage, "_usage", lambda: calls.append(None) or {})
    usage = resource_usage.ResourceUsage()
    first = usage.metrics()
    assert usage.metrics() == first and len(calls) == 1
    monkeypatch.setattr(resource_usage, "_LEAST_SECONDS", 0.0)
    usage.metrics()
    assert len(calls) == 2


def test_cores_are_of_an_interval_that_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    now, cpu_seconds = [100.0], [1.01]  # a hundredth of a second, of a few microseconds
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "process_time", lambda: 1.0)
    monkeypatch.setattr(
        resource_usage, "_usage", lambda: {os.getpid(): resource_usage._Used(cpu_seconds[0], 0, 0, 0, [])}
    )
    usage = resource_usage.ResourceUsage()
    now[0] += 1e-6
    assert "system/cores" not in usage.metrics()
    now[0] += 0.5
    assert "system/cores" not in usage.metrics()  # what was measured within the last second
    now[0], cpu_seconds[0] = 104.0, 3.0
    assert usage.metrics()["system/cores"] == pytest.approx(0.5)  # 2 of 4 seconds since it was made
