"""Slots from producers to a consumer: in order, each once, bounded, also after either side was killed."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fork_servers import env_context
from veldt.exchange.slots import Consumer, Producer, SlotRings
from veldt.runtime.processes import Child
from veldt.runtime.shared import Layout

LAYOUTS = {"number": Layout((), "int64"), "rows": Layout((1000,), "float32")}


def produce(pipe: Connection, rings: SlotRings, ring: int) -> None:
    """Goes on with the number after the last that was committed."""
    producer = Producer(rings, ring)
    number = int(rings._shared["counts"][ring, 0, 0])
    while True:
        slot = producer.slot(30.0)
        assert slot is not None
        slot["rows"][:] = -1
        slot["number"][...] = number
        slot["rows"][:] = number
        producer.commit()
        number += 1


@settings(max_examples=100, deadline=None)
@given(
    events=st.lists(st.tuples(st.sampled_from(["commit", "take", "release"]), st.integers(0, 2)), max_size=60)
)
def test_slots_against_a_list(events: list[tuple[str, int]]) -> None:
    depth = 3
    rings = SlotRings(LAYOUTS, 3, depth, env_context())
    producers, consumer = [Producer(rings, ring) for ring in range(3)], Consumer(rings)
    committed: list[list[int]] = [[], [], []]
    taken: list[list[int]] = [[], [], []]
    last = -1
    for number, (event, ring) in enumerate(events):
        if event == "commit":
            slot = producers[ring].slot(0.0)
            assert (slot is None) == (len(committed[ring]) + len(taken[ring]) == depth)
            if slot is not None:
                slot["number"][...] = number
                producers[ring].commit()
                committed[ring].append(number)
        elif event == "take":
            found = consumer.take(0.0)
            ready = [r for r in range(3) if committed[r]]
            assert (found is None) == (not ready)
            if found is not None:
                assert found.ring == next((r for r in ready if r > last), ready[0])
                last = found.ring
                assert int(found.arrays["number"]) == committed[found.ring].pop(0)
                taken[found.ring].append(number)
        elif taken[ring]:
            consumer.release(ring)
            taken[ring].pop(0)
        assert rings.waiting.tolist() == [len(c) + len(t) for c, t in zip(committed, taken, strict=True)]


def test_nothing_is_lost_or_torn_when_producers_are_killed() -> None:
    rings = SlotRings(LAYOUTS, 2, 4, env_context())
    consumer = Consumer(rings)
    children = [Child(env_context(), f"producer {ring}", produce, rings, ring) for ring in range(2)]
    try:
        received: list[list[int]] = [[], []]
        end = time.monotonic() + 60
        while min(map(len, received)) < 300:
            assert time.monotonic() < end
            taken = consumer.take(10.0)
            assert taken is not None
            number = int(taken.arrays["number"])
            assert (taken.arrays["rows"] == number).all()
            received[taken.ring].append(number)
            consumer.release(taken.ring)
            if number in (50, 170) and taken.ring == 0:
                children[0].kill()
                children[0] = Child(env_context(), "producer 0", produce, rings, 0)
        for numbers in received:
            assert numbers == list(range(len(numbers)))
    finally:
        for child in children:
            child.kill()


def test_a_restarted_consumer_gets_the_slots_that_were_not_released() -> None:
    rings = SlotRings(LAYOUTS, 1, 3, env_context())
    producer, consumer = Producer(rings, 0), Consumer(rings)
    for number in (7, 8):
        slot = producer.slot(0.0)
        assert slot is not None
        slot["number"][...] = number
        producer.commit()
    assert consumer.take(0.0) is not None
    again = Consumer(rings).take(0.0)
    assert again is not None and int(again.arrays["number"]) == 7


def test_waiting_ends_at_its_deadline_or_when_there_is_something() -> None:
    rings = SlotRings(LAYOUTS, 1, 1, env_context())
    begin = time.monotonic()
    assert Consumer(rings).take(0.1) is None
    assert 0.1 <= time.monotonic() - begin < 5
    child = Child(env_context(), "producer", produce, rings, 0)
    try:
        taken = Consumer(rings).take(30.0)
        assert taken is not None and np.all(taken.arrays["rows"] == 0)
        assert Producer(rings, 0).slot(0.05) is None
    finally:
        child.kill()
