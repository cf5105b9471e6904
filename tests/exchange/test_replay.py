"""Batches from several shards: sampled as from one buffer, whole, and not delayed by a shard that dies."""

from __future__ import annotations

import numpy as np
from numbered_shard import BATCH, ROWS, NumberedShard

from fork_servers import env_context
from veldt.exchange.replay import ReplayClient, ReplayEdge, ReplayServer


class Shard(NumberedShard):
    def __init__(self, edge: ReplayEdge, number: int, mass: np.ndarray) -> None:
        super().__init__(ReplayServer(edge, number), number, mass)
        self.say()


def edge_of(shards: int, ahead: int = 3) -> ReplayEdge:
    context = env_context()
    return ReplayEdge(BATCH, ROWS, ahead, [context.Semaphore(0) for _ in range(shards)], context)


def test_rows_are_drawn_in_proportion_to_their_mass_over_all_shards() -> None:
    edge = edge_of(3)
    rng = np.random.default_rng(0)
    masses = [rng.exponential(size=5), np.zeros(0), 3 * rng.exponential(size=7)]
    shards = [Shard(edge, number, mass) for number, mass in enumerate(masses)]
    client, counts = ReplayClient(edge), [np.zeros(len(mass)) for mass in masses]
    for seed in range(1500):
        assert client.request(1000 * seed, 0.0)
        for shard in shards:
            shard.work()
        batch = client.take(0.0)
        assert batch is not None
        for key, shard in zip(batch.key_N, batch.version_N, strict=True):
            counts[shard][key] += 1
        assert (np.diff(batch.version_N) >= 0).all(), "shards write side by side, in their order"
        client.give_back(None)
    wanted, found = np.concatenate(masses), np.concatenate(counts)
    np.testing.assert_allclose(found / found.sum(), wanted / wanted.sum(), atol=0.006)


def test_batches_are_ordered_ahead_and_taken_in_order() -> None:
    edge = edge_of(2, ahead=3)
    shards = [Shard(edge, 0, np.ones(4)), Shard(edge, 1, np.ones(4))]
    client = ReplayClient(edge)
    assert [client.request(seed, 0.0) for seed in range(5)] == [True] * 4 + [False]
    assert client.take(0.0) is None
    assert [shard.work() for shard in shards] == [4, 4]
    seen = []
    for _ in range(4):
        batch = client.take(0.0)
        assert batch is not None
        seen.append(batch.key_N.copy())
        client.give_back(None)
    assert client.take(0.0) is None
    alone = edge_of(2, ahead=3)
    again = [Shard(alone, 0, np.ones(4)), Shard(alone, 1, np.ones(4))]
    other = ReplayClient(alone)
    for seed in range(4):
        assert other.request(seed, 0.0)
        for shard in again:
            shard.work()
        batch = other.take(0.0)
        assert batch is not None and np.array_equal(batch.key_N, seen[seed])
        other.give_back(None)


def test_the_buffer_is_empty_only_if_all_shards_report_it() -> None:
    edge = edge_of(2, ahead=3)
    client = ReplayClient(edge)
    assert not client.is_empty, "shards may still be reading what they held"
    first, second = edge.server(0), edge.server(1)
    assert client.is_empty
    second.state(3.0, 4, 0)
    assert not client.is_empty
    edge.server(1)
    assert client.is_empty, "a new incarnation holds nothing until it reports rows"
    first.state(1.0, 1, 0)
    assert not client.is_empty


def test_a_batch_in_use_is_not_written_to() -> None:
    edge = edge_of(1, ahead=1)
    shard, client = Shard(edge, 0, np.ones(50)), ReplayClient(edge)
    assert client.request(1, 0.0)
    shard.work()
    batch = client.take(0.0)
    assert batch is not None
    before = batch.key_N.copy()
    assert client.request(2, 0.0) and not client.request(3, 0.0)
    shard.work()
    assert np.array_equal(batch.key_N, before)


def test_priorities_go_to_the_shards_of_their_rows() -> None:
    edge = edge_of(2)
    shards = [Shard(edge, 0, np.ones(4)), Shard(edge, 1, np.ones(12))]
    client = ReplayClient(edge)
    client.request(5, 0.0)
    for shard in shards:
        shard.work()
    batch = client.take(0.0)
    assert batch is not None
    client.give_back(np.arange(ROWS) + 0.5)
    for number, shard in enumerate(shards):
        shard.work()
        part = batch.version_N == number
        assert shard.updates == [(batch.key_N[part].tolist(), (np.arange(ROWS) + 0.5)[part].tolist())]


def test_the_requests_of_a_dead_shard_are_dropped_and_batches_continue() -> None:
    edge = edge_of(2)
    first, second = Shard(edge, 0, np.ones(8)), Shard(edge, 1, np.ones(8))
    client = ReplayClient(edge)
    assert client.request(1, 0.0) and client.request(2, 0.0)
    second.work()
    first = Shard(edge, 0, np.zeros(0))  # started again, with nothing
    assert client.take(5.0) is None and client.take(5.0) is None  # dropped at once, not after the deadline
    assert first.work() == 0
    assert client.request(3, 0.0)
    second.work()
    batch = client.take(0.0)
    assert batch is not None and (batch.version_N == 1).all()
    client.give_back(np.ones(ROWS))
    # And old requests do not write into a batch that another request has now.
    first.mass = np.ones(3)
    first.say()
    assert first.work() == 0


def test_nothing_is_requested_from_shards_that_are_empty() -> None:
    edge = edge_of(2)
    for number in range(2):
        Shard(edge, number, np.zeros(0))
    assert not ReplayClient(edge).request(0, 0.0)


def test_a_batch_that_lost_rows_is_not_dropped_while_a_shard_may_still_write_to_it() -> None:
    edge = edge_of(2)
    Shard(edge, 0, np.ones(8))
    second, client = Shard(edge, 1, np.ones(8)), ReplayClient(edge)
    assert [client.request(seed, 0.0) for seed in range(5)] == [True] * 4 + [False]
    Shard(edge, 0, np.zeros(0))  # started again, with nothing
    assert client.take(0.05) is None and not client.request(5, 0.0)
    second.work()
    assert client.take(0.05) is None and client.request(5, 0.0)


def test_a_batch_is_requested_only_if_all_shards_have_room_for_a_request() -> None:
    edge = edge_of(2, ahead=1)
    first, client = Shard(edge, 0, np.ones(8)), ReplayClient(edge)
    Shard(edge, 1, np.ones(8))
    while edge.requests[1].waiting[0] < edge.requests[1].depth:
        assert client.request(1, 0.0)
        first.work()
        Shard(edge, 1, np.ones(8))  # started again; it has not read its requests yet
        assert client.take(0.0) is None
    assert not client.request(2, 0.0)
    assert edge.requests[0].waiting[0] == 0


def test_requests_of_a_former_learner_are_left_out() -> None:
    edge = edge_of(1)
    shard = Shard(edge, 0, np.ones(4))
    former = ReplayClient(edge)
    while former.request(1, 0.0):
        pass
    client = ReplayClient(edge)
    assert client.request(2, 0.0)
    assert shard.work() == 1, "the one order of the learner that is there"
    assert client.take(0.0) is not None
    assert client.request(3, 0.0)
    assert client.take(0.0) is None, "its rows are still to be written"


def test_priorities_of_rows_that_a_restart_has_lost_are_counted() -> None:
    edge = edge_of(1, ahead=1)
    shard, client = Shard(edge, 0, np.ones(4)), ReplayClient(edge)
    assert client.request(1, 0.0) and client.request(2, 0.0)
    shard.work()
    assert client.take(0.0) is not None and client.take(0.0) is not None
    client.give_back(np.ones(ROWS))
    assert shard.work() == 1 and client.dropped == 0
    shard = Shard(edge, 0, np.ones(4))
    client.give_back(np.ones(ROWS))
    assert client.dropped == ROWS and shard.work() == 0


def test_there_is_room_for_the_priorities_of_a_shard_that_falls_behind() -> None:
    edge = edge_of(1, ahead=1)
    shard, client = Shard(edge, 0, np.ones(4)), ReplayClient(edge)
    for seed in range(5):
        while client.request(seed, 0.0):
            pass
        shard.work()
        while client.take(0.0) is not None:
            pass
        client.give_back(np.ones(ROWS))
        client.give_back(np.ones(ROWS))
    assert client.dropped == 0


def test_requests_go_in_groups_and_alone_wake_shards() -> None:
    edge = edge_of(1, ahead=15)
    wakes = edge.requests[0].filled
    shard, client = Shard(edge, 0, np.ones(5)), ReplayClient(edge)
    assert [client.request(seed, 0.0) for seed in range(17)] == [True] * 16 + [False]
    shard.work()
    while wakes.acquire(False):
        pass
    for number in range(4):
        assert not client.request(100 + number, 0.0), f"{number} batches are free, and 4 make a group"
        assert client.take(1.0) is not None
        client.give_back(np.ones(ROWS))
    assert not wakes.acquire(False), "priorities alone wake nobody"
    assert [client.request(200 + seed, 0.0) for seed in range(5)] == [True] * 4 + [False]
    assert wakes.acquire(False)
    assert shard.work() == 8 and len(shard.updates) == 4
