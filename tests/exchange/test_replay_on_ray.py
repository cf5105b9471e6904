"""Replay by mail, with either end started again at any moment."""

from __future__ import annotations

import time

import numpy as np
import pytest
from queued_transport import QueuedTransport
from numbered_shard import BATCH, ROWS, NumberedShard

from veldt.exchange.on_ray.replay import RayReplayClient, RayReplayServer


class Shard(NumberedShard):
    def __init__(self, transport: QueuedTransport, number: int, mass: np.ndarray) -> None:
        end = RayReplayServer(transport.starts(f"replay {number}"), "batches", BATCH, "learner")
        super().__init__(end, number, mass)

    def work(self) -> int:
        self.say()
        return super().work()


class Memory:
    """A learner's end and its shards."""

    def __init__(self, masses: list[np.ndarray], ahead: int = 3) -> None:
        self.transport, self.ahead = QueuedTransport(), ahead
        self.names = [f"replay {number}" for number in range(len(masses))]
        self.transport.starts("learner")
        self.shards = [Shard(self.transport, number, mass) for number, mass in enumerate(masses)]
        self.learner_begins()

    def learner_begins(self) -> None:
        self.buyer = RayReplayClient(
            self.transport.starts("learner"), "batches", BATCH, ROWS, self.ahead, self.names
        )

    def shard_begins(self, number: int, mass: np.ndarray) -> None:
        self.shards[number] = Shard(self.transport, number, mass)

    def work(self) -> None:
        for shard in self.shards:
            self.transport.carry()
            shard.work()
        self.transport.carry()

    def until_known(self) -> None:
        end = time.monotonic() + 20
        while self.buyer.rows != sum(len(shard.mass) for shard in self.shards):
            assert time.monotonic() < end
            self.work()

    def ordered(self, seed: int) -> int:
        """Orders all that there is room for."""
        count = 0
        while self.buyer.order(seed + count, 0.0):
            count += 1
        return count


def test_orders_go_in_groups() -> None:
    memory = Memory([np.ones(5)], ahead=15)
    memory.until_known()
    assert memory.ordered(0) == 16
    memory.work()
    for _ in range(5):  # the one that is learned from has a place, too
        assert memory.ordered(100) == 0 and not memory.transport.under_way
        assert memory.buyer.take(0.0) is not None
    assert memory.ordered(200) == 4 and memory.transport.under_way


def test_it_is_empty_only_when_all_shards_are_there_and_say_so() -> None:
    memory = Memory([np.zeros(0), np.zeros(0)])
    assert not memory.buyer.is_empty, "shards may still be reading what they held"
    memory.transport.carry()
    memory.shards[0].work()
    memory.transport.carry()
    assert not memory.buyer.is_empty
    memory.work()
    assert memory.buyer.is_empty
    memory.shard_begins(1, np.ones(3))
    assert not memory.buyer.is_empty
    memory.until_known()
    assert not memory.buyer.is_empty


def test_an_order_for_a_shards_former_life_is_left_out() -> None:
    memory = Memory([np.ones(5)])
    memory.until_known()
    assert memory.buyer.order(0, 0.0)  # and not posted yet
    memory.shard_begins(0, np.zeros(0))
    while memory.buyer.order(1, 0.0):
        pass
    memory.transport.carry()
    assert memory.shards[0].end.take() is None
    assert memory.buyer.take(0.0) is None and memory.ordered(0) == 0


def test_rows_are_drawn_in_proportion_to_their_mass_over_all_shards() -> None:
    rng = np.random.default_rng(0)
    masses = [rng.exponential(size=5), np.zeros(0), 3 * rng.exponential(size=7)]
    memory, counts, seed, taken = Memory(masses), [np.zeros(len(mass)) for mass in masses], 0, 0
    memory.until_known()
    while taken < 1500:
        seed += 1000 * memory.ordered(seed)
        memory.work()
        while (batch := memory.buyer.take(0.0)) is not None:
            taken += 1
            for key, shard in zip(batch.arrays["key"], batch.arrays["shard"], strict=True):
                counts[shard][key] += 1
            for number in range(3):
                assert (batch.arrays["shard"][slice(*batch.part_S[number : number + 2])] == number).all()
    wanted, found = np.concatenate(masses), np.concatenate(counts)
    np.testing.assert_allclose(found / found.sum(), wanted / wanted.sum(), atol=0.006)


def test_batches_are_ordered_ahead_and_a_batch_in_use_is_not_written_to() -> None:
    memory = Memory([np.ones(4), np.ones(4)])
    memory.until_known()
    assert memory.ordered(0) == 4 and memory.ordered(9) == 0
    assert memory.buyer.take(0.0) is None
    memory.work()
    batch = memory.buyer.take(0.0)
    assert batch is not None
    before = batch.arrays["key"].copy()
    memory.ordered(20)
    memory.work()
    assert np.array_equal(batch.arrays["key"], before)
    assert [memory.buyer.take(0.0) is not None for _ in range(4)] == [True, True, True, False]


def test_priorities_go_to_the_shards_they_are_of_before_what_is_drawn_next() -> None:
    memory = Memory([np.ones(4), np.ones(12)], ahead=0)
    memory.until_known()
    assert memory.ordered(5) == 1
    memory.work()
    batch = memory.buyer.take(0.0)
    assert batch is not None
    priority_N, key_N = np.arange(ROWS) + 0.5, batch.arrays["key"].copy()
    memory.buyer.update(batch, priority_N, 0.0)
    memory.ordered(6)
    memory.work()
    for number, shard in enumerate(memory.shards):
        part = slice(*batch.part_S[number : number + 2])
        assert shard.updates == [(key_N[part].tolist(), priority_N[part].tolist())]


def test_a_shard_that_dies_loses_its_orders_and_holds_up_nobody() -> None:
    memory = Memory([np.ones(8), np.ones(8)])
    memory.until_known()
    assert memory.ordered(1) == 4
    memory.shard_begins(0, np.zeros(0))
    assert memory.buyer.rows == 8, "what the former life held is gone"
    memory.work()
    for _ in range(4):
        began = time.monotonic()
        assert memory.buyer.take(5.0) is None and time.monotonic() - began < 1
    memory.until_known()
    assert memory.ordered(30) == 4
    memory.work()
    batch = memory.buyer.take(0.0)
    assert batch is not None and (batch.arrays["shard"] == 1).all()


def test_a_learner_that_begins_anew_is_not_sent_what_another_ordered() -> None:
    memory = Memory([np.ones(8), np.ones(8)])
    memory.until_known()
    assert memory.ordered(1) == 4
    memory.transport.carry()
    memory.learner_begins()
    memory.until_known()
    assert memory.buyer.take(0.0) is None
    assert memory.ordered(7) == 4
    memory.work()
    assert memory.buyer.take(0.0) is not None


def test_orders_that_were_lost_on_the_way_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veldt.exchange.on_ray.replay._AGAIN_S", 0.05)
    memory, end = Memory([np.ones(8)]), time.monotonic() + 20
    memory.until_known()
    assert memory.ordered(1) == 4
    memory.transport.under_way.clear()
    for _ in range(4):
        while memory.buyer.take(0.02) is None:
            assert time.monotonic() < end
            memory.work()
