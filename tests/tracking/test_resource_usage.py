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


class Processes:
    """Processes that a test makes up: CPU seconds and the time at which they began, by number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.used = {os.getpid(): (1.0, 0.0)}
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "process_time", lambda: 1.0)
        monkeypatch.setattr(resource_usage, "_usage", self._usage)

    def _usage(self) -> dict[int, resource_usage._Used]:
        return {
            pid: resource_usage._Used(seconds, 0, 0, 0, [], begun_at)
            for pid, (seconds, begun_at) in self.used.items()
        }


def test_cores_are_of_an_interval_that_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch)
    usage = resource_usage.ResourceUsage()
    processes.now += 1e-6
    processes.used[os.getpid()] = (1.01, 0.0)  # a hundredth of a second, of a few microseconds
    assert "system/cores" not in usage.metrics()
    processes.now, processes.used[os.getpid()] = 100.5, (1.25, 0.0)
    assert usage.metrics()["system/cores"] == pytest.approx(0.5)


def test_a_child_that_is_older_than_the_run_counts_from_its_second_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = Processes(monkeypatch)
    usage = resource_usage.ResourceUsage()
    processes.now = 104.0
    processes.used |= {8: (700.0, 20.0), 9: (2.0, 101.0)}
    assert usage.metrics()["system/cores"] == pytest.approx(2.0 / 4)
    processes.now, processes.used[8] = 106.0, (701.0, 20.0)
    assert usage.metrics()["system/cores"] == pytest.approx(1.0 / 2)
