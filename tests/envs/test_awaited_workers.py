"""How long the owner of an env process waits for it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from veldt.envs import worker_handle
from veldt.envs.worker_handle import WorkerHandle

TIMEOUT_S = 0.1


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> WorkerHandle:
    monkeypatch.setattr(worker_handle, "_LOOK_S", TIMEOUT_S)
    made = WorkerHandle.__new__(WorkerHandle)  # without its process
    made._settings = SimpleNamespace(envs=SimpleNamespace(env_timeout=TIMEOUT_S))  # type: ignore[assignment]
    made._child = SimpleNamespace(is_lost=False, is_closed=False)  # type: ignore[assignment]
    made._progress, made._longest_s = np.zeros(4, np.int64), 0.0
    return made


def test_a_process_that_was_stopped_together_with_its_owner_is_not_overdue(handle: WorkerHandle) -> None:
    """By Ctrl-Z, or with the machine: the clock goes on, and the process answers soon after both are continued."""
    calls = 0

    def stopped_meanwhile(timeout_s: float) -> bool:
        nonlocal calls
        calls += 1
        time.sleep(5 * TIMEOUT_S)
        return calls == 2

    assert handle._awaited(stopped_meanwhile, deadline_s=2 * TIMEOUT_S)


def test_a_process_that_moves_on_is_awaited_and_one_that_does_not_is_left(handle: WorkerHandle) -> None:
    calls = 0

    def moves_three_times(timeout_s: float) -> bool:
        nonlocal calls
        calls += 1
        handle._progress[1] += calls <= 3
        return False

    assert not handle._awaited(moves_three_times)
    assert calls == 4


def test_a_process_that_has_closed_its_pipe_is_left(handle: WorkerHandle) -> None:
    handle._child.is_closed = True
    calls: list[float] = []
    assert not handle._awaited(calls.append, deadline_s=60.0)
    assert len(calls) == 1
