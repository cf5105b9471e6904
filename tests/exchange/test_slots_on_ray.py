"""Slots on Ray, with either end restarted at any moment."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queued_transport import QueuedTransport

from veldt.exchange.on_ray.slots import RaySlotConsumer, RaySlotProducer
from veldt.runtime.shared import Layout

SLOT = {"number": Layout((), "int64"), "rows": Layout((100,), "float32")}


@settings(max_examples=100, deadline=None)
@given(
    events=st.lists(
        st.tuples(st.sampled_from(["commit", "take", "release", "carry", "carry"]), st.integers(0, 2)),
        max_size=80,
    )
)
def test_slots_against_a_list(events: list[tuple[str, int]]) -> None:
    depth, transport = 3, QueuedTransport()
    receiver = RaySlotConsumer(transport.starts("shard"), "steps", SLOT, 3)
    senders = [
        RaySlotProducer(transport.starts(f"actor {n}"), "steps", SLOT, depth, n, "shard") for n in range(3)
    ]
    committed: list[list[int]] = [[], [], []]
    taken: list[list[int]] = [[], [], []]
    for number, (event, ring) in enumerate([*events, ("carry", 0)]):
        if event == "commit":
            slot = senders[ring].slot(0.0)
            full = len(committed[ring]) + len(taken[ring]) == depth
            assert slot is None if full else True
            if slot is not None:
                slot["number"][...], slot["rows"][:] = number, number
                senders[ring].commit()
                committed[ring].append(number)
        elif event == "take":
            if (found := receiver.take(0.0)) is not None:
                assert int(found.arrays["number"]) == committed[found.ring].pop(0)
                assert (found.arrays["rows"] == found.arrays["number"]).all()
                found.arrays["rows"][:] = -1  # may be written to
                taken[found.ring].append(number)
        elif event == "release" and taken[ring]:
            receiver.release(ring)
            taken[ring].pop(0)
        elif event == "carry":
            transport.carry()
    ready = sum(map(len, committed))
    for _ in range(ready):
        assert receiver.take(0.0) is not None
    assert receiver.take(0.0) is None


@pytest.mark.parametrize("who", ["actor", "shard", "a letter"])
def test_slots_survive_either_end(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed arrives in order, however often an end is started again, or a letter lost."""
    if who == "a letter":
        monkeypatch.setattr("veldt.exchange.on_ray.slots._AGAIN_S", 0.001)
    transport, rng = QueuedTransport(), np.random.default_rng(0)
    receiver = RaySlotConsumer(transport.starts("shard"), "steps", SLOT, 1)
    sender = RaySlotProducer(transport.starts("actor"), "steps", SLOT, 3, 0, "shard")
    sent, received, number, restarts = [], [], 0, 0
    for _ in range(3000):
        match rng.integers(5):
            case 0 | 1:
                if (slot := sender.slot(0.0)) is not None:
                    slot["number"][...], slot["rows"][:] = number, number
                    sender.commit()
                    sent.append(number)
                    number += 1
            case 2:
                transport.carry()
            case 3:
                if (taken := receiver.take(0.0)) is not None:
                    assert (taken.arrays["rows"] == taken.arrays["number"]).all()
                    received.append(int(taken.arrays["number"]))
                    receiver.release(0)
            case _ if rng.random() < 0.1:
                restarts += 1
                if who == "a letter":
                    if transport.under_way:
                        transport.under_way.popleft()
                elif who == "shard":
                    receiver = RaySlotConsumer(transport.starts("shard"), "steps", SLOT, 1)
                else:
                    sender = RaySlotProducer(transport.starts("actor"), "steps", SLOT, 3, 0, "shard")
    if who == "a letter":
        time.sleep(0.01)
        for _ in range(3):
            sender.slot(0.0)
            time.sleep(0.01)
            transport.carry()
            while (taken := receiver.take(0.0)) is not None:
                received.append(int(taken.arrays["number"]))
                receiver.release(0)
        assert received == sent and restarts > 20
        return
    assert restarts > 20 and len(received) > 100
    if who == "shard":
        # One that was released and not heard of is sent again: at most a window of them, and never out of order.
        assert sorted(set(received)) == list(range(max(received) + 1))
        assert all(after >= before - 2 for before, after in itertools.pairwise(received))
    else:
        assert received == sorted(set(received)), "what a dead actor had sent and nobody received is lost"
        assert len(received) > 0.8 * len(sent)


def test_slots_block_at_their_depth_until_one_is_released() -> None:
    transport = QueuedTransport()
    receiver = RaySlotConsumer(transport.starts("shard"), "steps", SLOT, 1)
    sender = RaySlotProducer(transport.starts("actor"), "steps", SLOT, 2, 0, "shard")
    for _ in range(2):
        assert sender.slot(0.0) is not None
        sender.commit()
    began = time.monotonic()
    assert sender.slot(0.1) is None and 0.1 <= time.monotonic() - began < 5
    transport.carry()
    assert receiver.take(0.0) is not None
    transport.carry()
    assert sender.slot(0.0) is None, "taken is not released"
    receiver.release(0)
    threading.Timer(0.2, transport.carry).start()
    assert sender.slot(10.0) is not None
