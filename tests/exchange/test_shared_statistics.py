"""Statistics that processes share: no addition is lost, and one that is killed leaves whole numbers and a free lock."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import numpy as np
import pytest

from fork_servers import answers, env_context
from veldt.errors import PeerLostError
from veldt.exchange.shared_statistics import SharedStatistics, SharedStatisticsSpec
from veldt.runtime.processes import Child

LEARNERS, TURNS = 4, 200


def statistics(deadline_s: float = 60.0) -> SharedStatistics:
    initial = {"observations": np.arange(5.0), "rewards": np.zeros(3)}
    return SharedStatistics(SharedStatisticsSpec(initial, deadline_s), env_context())


def adds(pipe: Connection, shared: SharedStatistics) -> None:
    """Adds one to everything, `TURNS` times, and dawdles, so that without a lock additions are lost."""

    def add(numbers: np.ndarray) -> list[float]:
        before = numbers.copy()
        time.sleep(0)
        return (before + 1.0).tolist()

    for _ in range(TURNS):
        for name in ("observations", "rewards"):
            shared.update(name, add)
    pipe.send_bytes(b"done")


def dawdles(pipe: Connection, shared: SharedStatistics) -> None:
    """Takes the lock, and never comes to an end."""

    def change(numbers: np.ndarray) -> list[float]:
        pipe.send_bytes(b"has it")
        time.sleep(600)
        return (numbers + 100.0).tolist()

    shared.update("rewards", change)


def test_concurrent_learners_lose_no_addition() -> None:
    shared = statistics()
    assert answers(adds, [(shared,)] * LEARNERS) == [b"done"] * LEARNERS
    added = LEARNERS * TURNS
    assert shared.values() == {
        "observations": (np.arange(5.0) + added).tolist(),
        "rewards": [added, added, added],
    }


def test_a_killed_learner_leaves_the_old_numbers_and_a_free_lock() -> None:
    shared = statistics()
    child = Child(env_context(), "learner 1", dawdles, shared)
    try:
        assert child.receive(60.0) == b"has it"
        after = shared.update("rewards", lambda numbers: [*(numbers + 1.0)], heartbeat=child.kill)
        assert after.tolist() == [1.0, 1.0, 1.0] == shared.values()["rewards"]
    finally:
        child.kill()


def test_a_learner_that_never_gets_the_lock_ends_with_a_sentence() -> None:
    shared = statistics(deadline_s=0.2)
    child = Child(env_context(), "learner 1", dawdles, shared)
    try:
        assert child.receive(60.0) == b"has it"
        with pytest.raises(PeerLostError, match=r"another learner has held the statistics for 0\.2 s"):
            shared.update("rewards", lambda numbers: [*numbers])
    finally:
        child.kill()
