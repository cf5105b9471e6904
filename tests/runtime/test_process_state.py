"""A process that a signal has stopped is told from one that runs, and its time counts only while both can run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from veldt.runtime.process_state import STOPPED_S, ProcessState, StopClock, continue_descendants

DEADLINE_S = 20.0


def within_deadline(state: ProcessState, *, is_stopped: bool) -> bool:
    end = time.monotonic() + DEADLINE_S
    while state.is_stopped != is_stopped and time.monotonic() < end:
        time.sleep(0.001)
    return state.is_stopped == is_stopped


def test_a_process_is_stopped_continued_and_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        state = ProcessState(child.pid)
        assert state.is_alive and not state.is_stopped
        child.send_signal(signal.SIGSTOP)
        assert within_deadline(state, is_stopped=True) and state.is_alive
        continue_descendants()
        assert within_deadline(state, is_stopped=False) and state.is_alive
    finally:
        child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE and not state.is_alive
    child.communicate()
    assert not state.is_alive and not state.is_stopped


def test_a_process_id_that_belongs_to_another_process_is_not_it() -> None:
    state = ProcessState(os.getpid())
    state._began = -1.0
    assert not state.is_alive and not state.is_stopped


def test_a_pause_of_the_process_that_looks_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = StopClock()
    now[0] += 300.0
    assert not clock.is_over(is_stopped=True)
    for _ in range(int(STOPPED_S) - 1):
        now[0] += 1.0
        assert not clock.is_over(is_stopped=True)
    assert not clock.is_over(is_stopped=False)
    for _ in range(int(STOPPED_S)):
        now[0] += 1.0
        assert not clock.is_over(is_stopped=True)
    now[0] += 1.0
    assert clock.is_over(is_stopped=True)
