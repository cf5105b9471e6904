"""Replay on Ray, with either end restarted at any moment."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numbered_shard import BATCH, ROWS, NumberedShard
from queued_transport import QueuedTransport

from veldt.exchange.on_ray.replay import RayReplayClient, RayReplayServer


class Shard(NumberedShard):
    def __init__(self, transport: QueuedTransport, number: int, mass: np.ndarray) -> None:
        end = RayReplayServer(transport.starts(f"replay {number}"), "batches", BATCH, "learner")
        super().__init__(end, number, mass)

    def work(self) -> int:
        self.say()
        return super().work()


class ShardedReplay:
    """A learner's end and its shards."""

    def __init__(self, masses: list[np.ndarray], ahead: int = 3) -> None:
        self.transport, self.ahead = QueuedTransport(), ahead
        self.names = [f"replay {number}" for number in range(len(masses))]
        self.transport.starts("learner")
        self.shards = [Shard(self.transport, number, mass) for number, mass in enumerate(masses)]
        self.learner_begins()

    def learner_begins(self) -> None:
        self.client = RayReplayClient(
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
        while self.client.rows != sum(len(shard.mass) for shard in self.shards):
            assert time.monotonic() < end
            self.work()

    def requested(self, seed: int) -> int:
        """Orders all that there is room for."""
        count = 0
        while self.client.request(seed + count, 0.0):
            count += 1
        return count


def test_requests_go_in_groups() -> None:
    replay = ShardedReplay([np.ones(5)], ahead=15)
    replay.until_known()
    assert replay.requested(0) == 16
    replay.work()
    for _ in range(4):
        assert replay.requested(100) == 0 and not replay.transport.under_way
        assert replay.client.take(0.0) is not None
        replay.client.give_back(None)
    assert replay.requested(200) == 4 and replay.transport.under_way


def test_the_buffer_is_empty_only_if_all_shards_report_it() -> None:
    replay = ShardedReplay([np.zeros(0), np.zeros(0)])
    assert not replay.client.is_empty, "shards may still be reading what they held"
    replay.transport.carry()
    replay.shards[0].work()
    replay.transport.carry()
    assert not replay.client.is_empty
    replay.work()
    assert replay.client.is_empty
    replay.shard_begins(1, np.ones(3))
    assert not replay.client.is_empty
    replay.until_known()
    assert not replay.client.is_empty


def test_a_request_to_a_shards_former_incarnation_is_left_out() -> None:
    replay = ShardedReplay([np.ones(5)])
    replay.until_known()
    assert replay.client.request(0, 0.0)  # and not posted yet
    replay.shard_begins(0, np.zeros(0))
    while replay.client.request(1, 0.0):
        pass
    replay.transport.carry()
    assert replay.shards[0].end.take() is None
    assert replay.client.take(0.0) is None and replay.requested(0) == 0


def test_rows_are_drawn_in_proportion_to_their_mass_over_all_shards() -> None:
    rng = np.random.default_rng(0)
    masses = [rng.exponential(size=5), np.zeros(0), 3 * rng.exponential(size=7)]
    replay, counts, seed, taken = ShardedReplay(masses), [np.zeros(len(mass)) for mass in masses], 0, 0
    replay.until_known()
    while taken < 1500:
        seed += 1000 * replay.requested(seed)
        replay.work()
        while (batch := replay.client.take(0.0)) is not None:
            taken += 1
            for key, shard in zip(batch.key_N, batch.version_N, strict=True):
                counts[shard][key] += 1
            assert (np.diff(batch.version_N) >= 0).all(), "shards write side by side, in their order"
            replay.client.give_back(None)
    wanted, found = np.concatenate(masses), np.concatenate(counts)
    np.testing.assert_allclose(found / found.sum(), wanted / wanted.sum(), atol=0.006)


def test_batches_are_ordered_ahead_and_a_batch_in_use_is_not_written_to() -> None:
    replay = ShardedReplay([np.ones(4), np.ones(4)])
    replay.until_known()
    assert replay.requested(0) == 4 and replay.requested(9) == 0
    assert replay.client.take(0.0) is None
    replay.work()
    batch = replay.client.take(0.0)
    assert batch is not None
    before = batch.key_N.copy()
    replay.requested(20)
    replay.work()
    assert np.array_equal(batch.key_N, before)
    assert [replay.client.take(0.0) is not None for _ in range(4)] == [True, True, True, False]
    replay.client.give_back(None)
    assert replay.requested(30) == 1, "each batch that is given back can be requested again"


def test_priorities_reach_the_shards_of_their_rows_before_the_next_sample() -> None:
    replay = ShardedReplay([np.ones(4), np.ones(12)], ahead=0)
    replay.until_known()
    assert replay.requested(5) == 1
    replay.work()
    batch = replay.client.take(0.0)
    assert batch is not None
    priority_N, key_N, shard_N = np.arange(ROWS) + 0.5, batch.key_N.copy(), batch.version_N.copy()
    replay.client.give_back(priority_N)
    replay.requested(6)
    replay.work()
    for number, shard in enumerate(replay.shards):
        part = shard_N == number
        assert shard.updates == [(key_N[part].tolist(), priority_N[part].tolist())]


def test_the_requests_of_a_dead_shard_are_dropped_and_batches_continue() -> None:
    replay = ShardedReplay([np.ones(8), np.ones(8)])
    replay.until_known()
    assert replay.requested(1) == 4
    replay.shard_begins(0, np.zeros(0))
    assert replay.client.rows == 8, "what the former incarnation held is gone"
    replay.work()
    for _ in range(4):
        began = time.monotonic()
        assert replay.client.take(5.0) is None and time.monotonic() - began < 1
    replay.until_known()
    assert replay.requested(30) == 4
    replay.work()
    batch = replay.client.take(0.0)
    assert batch is not None and (batch.version_N == 1).all()


def test_a_restarted_learner_gets_no_batches_of_its_former_incarnation() -> None:
    replay = ShardedReplay([np.ones(8), np.ones(8)])
    replay.until_known()
    assert replay.requested(1) == 4
    replay.transport.carry()
    replay.learner_begins()
    replay.until_known()
    assert replay.client.take(0.0) is None
    assert replay.requested(7) == 4
    replay.work()
    assert replay.client.take(0.0) is not None


def test_requests_that_were_lost_on_the_way_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veldt.exchange.on_ray.replay._AGAIN_S", 0.05)
    replay, end = ShardedReplay([np.ones(8)]), time.monotonic() + 20
    replay.until_known()
    assert replay.requested(1) == 4
    replay.transport.under_way.clear()
    for _ in range(4):
        while replay.client.take(0.02) is None:
            assert time.monotonic() < end
            replay.work()
