"""Batches from several shards: sampled as from one buffer, whole, and not delayed by a shard that dies."""

from __future__ import annotations

import numpy as np
from numbered_shard import BATCH, ROWS, NumberedShard

from veldt.exchange.replay import ReplayClient, ReplayEdge, ReplayServer
from veldt.runtime.processes import forkserver


class Shard(NumberedShard):
    def __init__(self, edge: ReplayEdge, number: int, mass: np.ndarray) -> None:
        super().__init__(ReplayServer(edge, number), number, mass)
        self.say()


def edge_of(shards: int, ahead: int = 3) -> ReplayEdge:
    context = forkserver(["veldt.envs.worker", "gymnasium", "veldt.envs.atari"])
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
        for key, shard in zip(batch.arrays["key"], batch.arrays["shard"], strict=True):
            counts[shard][key] += 1
        for number in range(3):
            part = slice(*batch.part_S[number : number + 2])
            assert (batch.arrays["shard"][part] == number).all()
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
        seen.append(batch.arrays["key"].copy())
    assert client.take(0.0) is None
    alone = edge_of(2, ahead=3)
    again = [Shard(alone, 0, np.ones(4)), Shard(alone, 1, np.ones(4))]
    other = ReplayClient(alone)
    for seed in range(4):
        assert other.request(seed, 0.0)
        for shard in again:
            shard.work()
        batch = other.take(0.0)
        assert batch is not None and np.array_equal(batch.arrays["key"], seen[seed])


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
    before = batch.arrays["key"].copy()
    assert client.request(2, 0.0) and not client.request(3, 0.0)
    shard.work()
    assert np.array_equal(batch.arrays["key"], before)


def test_priorities_go_to_the_shards_of_their_rows() -> None:
    edge = edge_of(2)
    shards = [Shard(edge, 0, np.ones(4)), Shard(edge, 1, np.ones(12))]
    client = ReplayClient(edge)
    client.request(5, 0.0)
    for shard in shards:
        shard.work()
    batch = client.take(0.0)
    assert batch is not None
    client.update(batch, np.arange(ROWS) + 0.5, 0.0)
    for number, shard in enumerate(shards):
        shard.work()
        part = slice(*batch.part_S[number : number + 2])
        assert shard.updates == [(batch.arrays["key"][part].tolist(), (np.arange(ROWS) + 0.5)[part].tolist())]


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
    assert batch is not None and (batch.arrays["shard"] == 1).all()
    client.update(batch, np.ones(ROWS), 0.0)
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
    first, second = Shard(edge, 0, np.ones(8)), Shard(edge, 1, np.ones(8))
    client = ReplayClient(edge)
    assert client.request(1, 0.0)
    first.work()
    second.work()
    batch = client.take(0.0)
    assert batch is not None
    while edge.requests[1].waiting[0] < edge.requests[1].depth:
        client.update(batch, np.ones(ROWS), 0.0)
        first.work()
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


def test_priorities_that_reach_no_shard_are_counted() -> None:
    edge = edge_of(1, ahead=1)
    shard, client = Shard(edge, 0, np.ones(4)), ReplayClient(edge)
    client.request(1, 0.0)
    shard.work()
    batch = client.take(0.0)
    assert batch is not None
    sent = 0
    while client.dropped == 0:
        client.update(batch, np.ones(ROWS), 0.0)
        sent += 1
    assert client.dropped == ROWS, "there was no room for the last"
    assert shard.work() == sent - 1
    Shard(edge, 0, np.ones(4))
    client.update(batch, np.ones(ROWS), 0.0)
    assert client.dropped == 2 * ROWS, "they were the former shard's"


def test_requests_go_in_groups_and_alone_wake_shards() -> None:
    edge = edge_of(1, ahead=15)
    wakes = edge.requests[0].filled
    shard, client = Shard(edge, 0, np.ones(5)), ReplayClient(edge)
    assert [client.request(seed, 0.0) for seed in range(17)] == [True] * 16 + [False]
    shard.work()
    while wakes.acquire(False):
        pass
    for number in range(5):  # the batch that is learned from counts, too
        assert not client.request(100 + number, 0.0), f"{number - 1} batches are free, and 4 make a group"
        batch = client.take(1.0)
        assert batch is not None
        client.update(batch, np.ones(ROWS), 0.0)
    assert not wakes.acquire(False), "priorities alone wake nobody"
    assert [client.request(200 + seed, 0.0) for seed in range(5)] == [True] * 4 + [False]
    assert wakes.acquire(False)
    assert shard.work() == 9 and len(shard.updates) == 5
