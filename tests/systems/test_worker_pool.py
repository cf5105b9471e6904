"""Threads of which some are parked: which ones work, errors, and a thread that hangs."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from veldt.systems.ga3c.model import Model
from veldt.systems.ga3c.worker_pool import WorkerPool


def until(condition: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.002)


def test_as_many_threads_work_as_are_active() -> None:
    turns: Counter[str] = Counter()

    def turn() -> None:
        turns[threading.current_thread().name] += 1
        time.sleep(0.001)

    pool = WorkerPool("hand", 4, 1, turn)
    pool.start()
    try:
        for working in (1, 3, 2, 4):
            pool.activate(working)
            expected = {f"hand {number}" for number in range(working)}
            time.sleep(0.01)  # for turns that had begun
            turns.clear()
            until(lambda: set(turns) == expected)  # noqa: B023
            time.sleep(0.02)
            assert set(turns) == expected
    finally:
        pool.stop(10.0)
    assert not any(thread.name.startswith("hand") for thread in threading.enumerate())


def test_check_tells_whether_all_threads_have_made_progress() -> None:
    gate, inside = threading.Event(), threading.Semaphore(0)
    gate.set()

    def turn() -> None:
        if not gate.is_set():
            inside.release()
            gate.wait(60.0)
        time.sleep(0.001)

    pool = WorkerPool("hand", 3, 2, turn)  # one is parked, and goes on all the same
    pool.start()
    try:
        for _ in range(3):
            until(pool.check)
        gate.clear()
        assert inside.acquire(timeout=20.0) and inside.acquire(timeout=20.0)
        seen = []
        for _ in range(20):
            seen.append(pool.check())
            time.sleep(0.05)
        assert sum(seen) <= 1, "what they had done before"
        gate.set()
        until(pool.check)
    finally:
        gate.set()
        pool.stop(10.0)


def test_an_error_of_a_thread_is_raised_in_the_owner() -> None:
    def turn() -> None:
        raise ValueError("broken")

    pool = WorkerPool("hand", 2, 1, turn)
    pool.start()
    try:
        with pytest.raises(ValueError, match="broken") as caught:
            until(lambda: pool.check() and False)
        assert any(entry.name == "turn" for entry in caught.traceback), "with where it was"
    finally:
        pool.stop(10.0)


def test_each_computes_with_the_threads_of_its_owner() -> None:
    """By OpenMP's own setting, which is each thread's: torch only says what it was told."""
    libraries = {
        line.split(maxsplit=5)[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "gomp" in line
    }
    if not libraries:
        pytest.skip("torch computes without GNU's OpenMP here")
    openmp = ctypes.CDLL(libraries.pop())
    seen: list[int] = []
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        pool = WorkerPool(
            "hand", 1, 1, lambda: seen.append(openmp.omp_get_max_threads()) or time.sleep(0.001)
        )
        pool.start()
        until(lambda: seen)
        pool.stop(10.0)
        assert set(seen) == {3}
    finally:
        torch.set_num_threads(before)


def test_a_model_of_which_one_pool_hangs_makes_no_progress() -> None:
    """Whatever the other does; both in turn are progress, once."""
    goes_on = {"predictor": True, "trainer": False}
    pools = [type("Pool", (), {"check": lambda self, name=name: goes_on[name]})() for name in goes_on]
    model: Any = SimpleNamespace(_pools=pools, _progressed=set())
    assert not Model.is_progressing(model) and not Model.is_progressing(model)
    goes_on |= {"predictor": False, "trainer": True}
    assert Model.is_progressing(model)
    assert not Model.is_progressing(model)
