"""Ending all processes below one."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

from veldt.runtime.descendants import end_below

# One process that sleeps, and one that ignores requests to end and starts three others, one after another.
HEAD = """
import os, signal, subprocess, sys, time
from veldt.runtime.descendants import adopt_orphans
adopt_orphans()
sleep = [sys.executable, "-S", "-c", "import time; time.sleep(20)"]
subprocess.Popen(sleep)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(3):
        subprocess.Popen(sleep)
        time.sleep(0.05)
    time.sleep(20)
    os._exit(0)
print(flush=True)
time.sleep(20)
"""


def test_the_processes_below_one_are_killed_and_it_is_not() -> None:
    head = subprocess.Popen([sys.executable, "-c", HEAD], stdout=subprocess.PIPE)
    assert head.stdout is not None
    try:
        head.stdout.readline()
        end_below(head.pid)
        time.sleep(0.3)  # a process that was missed would have started another
        assert head.poll() is None
        below = psutil.Process(head.pid).children(recursive=True)
        assert all(process.status() == psutil.STATUS_ZOMBIE for process in below)
    finally:
        head.kill()
        head.wait(10)
        head.stdout.close()
