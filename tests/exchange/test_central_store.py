"""The central store: chunks cover the vector once, each is locked by one learner, and a dead learner's is freed."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fork_servers import answers, env_context
from veldt.errors import PeerLostError
from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.runtime.processes import Child

SIZE, LEARNERS, TURNS = 10_007, 8, 100


def spec(size: int, chunks: int, deadline_s: float = 60.0) -> CentralStoreSpec:
    parameters = np.arange(size, dtype=np.float32)
    return CentralStoreSpec(
        {PARAMETERS: parameters, "mean": -parameters, "count": np.float32(3.0).reshape(())},
        chunks,
        deadline_s,
    )


def counts(pipe: Connection, store: CentralStore, rank: int) -> None:
    """Adds one to everything, `TURNS` times: reads, dawdles and writes, so that without locks additions are lost."""
    end = store.client(rank)
    for _ in range(TURNS):
        for chunk in end.chunks():
            for tensor in chunk.tensors.values():
                before = tensor.clone()
                time.sleep(0)
                tensor.copy_(before + 1.0)
    pipe.send_bytes(b"done")


def holds(pipe: Connection, store: CentralStore, rank: int) -> None:
    """Takes a chunk and keeps it."""
    for _ in store.client(rank).chunks():
        pipe.send_bytes(b"has it")
        time.sleep(600)


@given(size=st.integers(1, 60), chunks=st.integers(1, 60), rank=st.integers(0, 9))
def test_chunks_cover_everything_once(size: int, chunks: int, rank: int) -> None:
    chunks = min(size, chunks)
    end = CentralStore(spec(size, chunks), None).client(rank)
    seen = np.zeros(size)
    for chunk in end.chunks():
        assert chunk.first < chunk.end
        seen[chunk.first : chunk.end] += 1
        assert chunk.tensors[PARAMETERS].tolist() == list(range(chunk.first, chunk.end))
        assert (chunk.tensors["mean"] == -chunk.tensors[PARAMETERS]).all()
        assert float(chunk.tensors["count"]) == 3.0
    assert (seen == 1).all()


def test_eight_concurrent_learners_lose_no_update() -> None:
    store = CentralStore(spec(SIZE, 3), env_context())
    assert answers(counts, [(store, rank) for rank in range(LEARNERS)]) == [b"done"] * LEARNERS
    after, added = store.client(0).copied(), LEARNERS * TURNS
    np.testing.assert_array_equal(after[PARAMETERS], np.arange(SIZE) + added)
    np.testing.assert_array_equal(after["mean"], added - np.arange(SIZE))
    assert after["count"] == 3.0 + added


def test_a_chunk_locked_by_a_dead_learner_becomes_free() -> None:
    store = CentralStore(spec(30, 3), env_context())
    child = Child(env_context(), "learner 1", holds, store, 1)
    try:
        assert child.receive(60.0) == b"has it"
        own = store.client(0, heartbeat=child.kill)  # which is called when there is nothing left but to wait
        assert len([chunk.first for chunk in own.chunks()]) == 3
        assert not child.alive() and own.blocked_s > 0.0
    finally:
        child.kill()


def test_a_waiting_learner_sends_heartbeats_and_its_error_names_the_holder() -> None:
    store = CentralStore(spec(30, 1, deadline_s=0.2), env_context())
    child = Child(env_context(), "learner 5", holds, store, 5)
    heartbeats: list[None] = []
    try:
        assert child.receive(60.0) == b"has it"
        with pytest.raises(
            PeerLostError, match=r"no chunk of the central store has been free .* 0 by learner 5"
        ):
            list(store.client(0, lambda: heartbeats.append(None)).chunks())
        assert heartbeats
    finally:
        child.kill()


def test_time_blocked_and_time_updating() -> None:
    end = CentralStore(spec(30, 3), None).client(0)
    for _ in end.chunks():
        time.sleep(0.01)
    assert end.updating_s >= 0.03 and end.blocked_s == 0.0
