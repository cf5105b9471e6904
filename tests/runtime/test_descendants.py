"""Ending all processes below one."""

from __future__ import annotations

import itertools
import subprocess
import sys

import psutil
import pytest

from veldt.runtime.descendants import end_below

# One process that sleeps, and one that starts three others, one after another.
HEAD = """
import os, subprocess, sys, time
from veldt.runtime.descendants import adopt_orphans
adopt_orphans()
sleep = [sys.executable, "-S", "-c", "import time; time.sleep(20)"]
subprocess.Popen(sleep)
if os.fork() == 0:
    for _ in range(3):
        subprocess.Popen(sleep)
        time.sleep(0.05)
    time.sleep(20)
    os._exit(0)
print(flush=True)
time.sleep(20)
"""


def test_the_processes_below_one_are_killed_and_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a list of them is empty because a parent has ended while it was made."""
    listed, calls = psutil.Process.children, itertools.count()

    def children(self: psutil.Process, *, recursive: bool) -> list[psutil.Process]:
        return listed(self, recursive=recursive) if next(calls) else []

    monkeypatch.setattr(psutil.Process, "children", children)
    head = subprocess.Popen([sys.executable, "-c", HEAD], stdout=subprocess.PIPE)
    assert head.stdout is not None
    try:
        head.stdout.readline()
        end_below(head.pid)
        assert head.poll() is None
        below = psutil.Process(head.pid).children(recursive=True)
        assert all(process.status() == psutil.STATUS_ZOMBIE for process in below)
    finally:
        head.kill()
        head.wait(10)
        head.stdout.close()
