"""The edges by mail: the same properties as in shared memory, with either end started again at any moment."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.exchange.on_ray.pace import PaceBook, PaceHere
from veldt.exchange.on_ray.replay import ReplayBuyer, ReplaySeller
from veldt.exchange.on_ray.slots import SlotReceiver, SlotSender
from veldt.exchange.on_ray.weights import WeightsReader, WeightsSource
from veldt.exchange.pace import Pace, PaceSpec, least_slack
from veldt.runtime.on_ray.mail import Envelope, Letter, Mailbox, opened
from veldt.runtime.shared import Layout

SLOT = {"number": Layout((), "int64"), "rows": Layout((100,), "float32")}
ROWS = 16
BATCH = {
    "key": Layout((ROWS,), "int64"),
    "mass": Layout((ROWS,), "float64"),
    "shard": Layout((ROWS,), "int64"),
}


class Post:
    """Carries letters between mailboxes when it is told to, copies of what was sent as Ray makes them."""

    def __init__(self) -> None:
        self.boxes: dict[str, Mailbox] = {}
        self.lives: dict[str, int] = {}
        self.under_way: deque[tuple[str, int, str, Letter]] = deque()

    def starts(self, name: str) -> Mailbox:
        """The next life of a host; letters to the one before are lost."""
        self.lives[name] = life = self.lives.get(name, -1) + 1
        self.boxes[name] = Mailbox(name, life, lambda value: value.copy())
        for box in self.boxes.values():
            box.meet({to: (self.lives[to], self._sends(to, self.lives[to])) for to in self.boxes})
        return self.boxes[name]

    def _sends(self, to: str, to_life: int) -> Any:
        def send(envelope: Envelope, kept: Any = None) -> None:
            *head, content = envelope
            copied = tuple(_copied(value) for value in content)
            self.under_way.append((to, to_life, *opened((*head, copied), _copied(kept))))

        return send

    def carry(self) -> None:
        while self.under_way:
            to, life, edge, letter = self.under_way.popleft()
            if life == self.lives[to]:
                self.boxes[to].deliver(edge, letter)


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False  # as what Ray hands over
    return value


# -------------------------------------------------------------------------------------------------- slots


@settings(max_examples=100, deadline=None)
@given(
    events=st.lists(
        st.tuples(st.sampled_from(["commit", "take", "release", "carry", "carry"]), st.integers(0, 2)),
        max_size=80,
    )
)
def test_slots_against_a_list(events: list[tuple[str, int]]) -> None:
    depth, post = 3, Post()
    receiver = SlotReceiver(post.starts("shard"), "steps", SLOT, 3)
    senders = [SlotSender(post.starts(f"actor {n}"), "steps", SLOT, depth, n, "shard") for n in range(3)]
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
            post.carry()
    ready = sum(map(len, committed))
    for _ in range(ready):
        assert receiver.take(0.0) is not None
    assert receiver.take(0.0) is None


@pytest.mark.parametrize("who", ["actor", "shard", "a letter"])
def test_slots_survive_either_end(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed arrives in order, however often an end is started again, or a letter lost."""
    if who == "a letter":
        monkeypatch.setattr("veldt.exchange.on_ray.slots._AGAIN_S", 0.001)
    post, rng = Post(), np.random.default_rng(0)
    receiver = SlotReceiver(post.starts("shard"), "steps", SLOT, 1)
    sender = SlotSender(post.starts("actor"), "steps", SLOT, 3, 0, "shard")
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
                post.carry()
            case 3:
                if (taken := receiver.take(0.0)) is not None:
                    assert (taken.arrays["rows"] == taken.arrays["number"]).all()
                    received.append(int(taken.arrays["number"]))
                    receiver.release(0)
            case _ if rng.random() < 0.1:
                restarts += 1
                if who == "a letter":
                    if post.under_way:
                        post.under_way.popleft()
                elif who == "shard":
                    receiver = SlotReceiver(post.starts("shard"), "steps", SLOT, 1)
                else:
                    sender = SlotSender(post.starts("actor"), "steps", SLOT, 3, 0, "shard")
    if who == "a letter":
        time.sleep(0.01)
        for _ in range(3):
            sender.slot(0.0)
            time.sleep(0.01)
            post.carry()
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
    post = Post()
    receiver = SlotReceiver(post.starts("shard"), "steps", SLOT, 1)
    sender = SlotSender(post.starts("actor"), "steps", SLOT, 2, 0, "shard")
    for _ in range(2):
        assert sender.slot(0.0) is not None
        sender.commit()
    began = time.monotonic()
    assert sender.slot(0.1) is None and 0.1 <= time.monotonic() - began < 5
    post.carry()
    assert receiver.take(0.0) is not None
    post.carry()
    assert sender.slot(0.0) is None, "taken is not released"
    receiver.release(0)
    threading.Timer(0.2, post.carry).start()
    assert sender.slot(10.0) is not None


# ------------------------------------------------------------------------------------------------- weights


def test_weights_come_whole_newest_and_without_waiting() -> None:
    layouts = {"master": Layout((1000,), "float32"), "mean": Layout((3,), "float64")}
    post = Post()
    source = WeightsSource(post.starts("learner"), "weights", layouts)
    reader = WeightsReader(post.starts("actor"), "weights", layouts, "learner")
    into = {name: np.zeros(layout.shape, layout.dtype) for name, layout in layouts.items()}

    def pulled(than: int) -> int:
        end = time.monotonic() + 20
        while (version := reader.pull_if_newer(than, into)) == than:
            post.carry()
            assert time.monotonic() < end
            time.sleep(0.001)
        return version

    reader.check(into)
    began = time.monotonic()
    for _ in range(1000):
        assert reader.pull_if_newer(-1, into) == -1
    assert time.monotonic() - began < 0.5, "a look that finds nothing costs nothing"
    source.publish(3, {name: np.ones_like(array) for name, array in into.items()})
    assert pulled(-1) == 3 and (into["master"] == 1).all() and (into["mean"] == 1).all()
    assert reader.pull_if_newer(3, into) == 3
    for version in range(4, 40):
        source.publish(version, {name: np.full_like(array, version) for name, array in into.items()})
    version = pulled(3)
    while version < 39:
        assert (into["master"] == version).all() and (into["mean"] == version).all()
        version = pulled(version)
    # A learner that goes on from an older version is heard.
    source = WeightsSource(post.starts("learner"), "weights", layouts)
    source.publish(20, {name: np.full_like(array, 20) for name, array in into.items()})
    assert pulled(39) == 20 and (into["master"] == 20).all()


# -------------------------------------------------------------------------------------------------- replay


class Shard:
    """Holds numbered rows with masses; writes the number as key."""

    def __init__(self, post: Post, number: int, mass: np.ndarray) -> None:
        self.number, self.mass = number, mass
        self.seller = ReplaySeller(post.starts(f"replay {number}"), "batches", BATCH, "learner")
        self.updates: list[tuple[list[int], list[float]]] = []

    def work(self) -> None:
        self.seller.state(float(self.mass.sum()), len(self.mass), 0)
        while (taken := self.seller.take()) is not None:
            order, place = taken
            if order.out is None:
                self.updates.append((order.key_N.tolist(), order.priority_N.tolist()))
            else:
                rng, count = np.random.default_rng(order.seed), len(order.out["key"])
                target = (np.arange(count) + rng.random(count)) / count * self.mass.sum()
                drawn = np.searchsorted(np.cumsum(self.mass), target, side="right")
                order.out["key"][:], order.out["mass"][:] = drawn, self.mass[drawn]
                order.out["shard"][:] = self.number
            self.seller.done(order, place)


class Memory:
    """A learner's end and its shards."""

    def __init__(self, masses: list[np.ndarray], ahead: int = 3) -> None:
        self.post, self.ahead = Post(), ahead
        self.names = [f"replay {number}" for number in range(len(masses))]
        self.post.starts("learner")
        self.shards = [Shard(self.post, number, mass) for number, mass in enumerate(masses)]
        self.learner_begins()

    def learner_begins(self) -> None:
        self.buyer = ReplayBuyer(self.post.starts("learner"), "batches", BATCH, ROWS, self.ahead, self.names)

    def shard_begins(self, number: int, mass: np.ndarray) -> None:
        self.shards[number] = Shard(self.post, number, mass)

    def work(self) -> None:
        for shard in self.shards:
            self.post.carry()
            shard.work()
        self.post.carry()

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
        assert memory.ordered(100) == 0 and not memory.post.under_way
        assert memory.buyer.take(0.0) is not None
    assert memory.ordered(200) == 4 and memory.post.under_way


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
    memory.post.carry()
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
    memory.post.under_way.clear()
    for _ in range(4):
        while memory.buyer.take(0.02) is None:
            assert time.monotonic() < end
            memory.work()


# ---------------------------------------------------------------------------------------------------- pace


@settings(max_examples=60, deadline=None)
@given(
    intensity=st.floats(0.1, 40.0),
    batch=st.integers(1, 600),
    flush=st.integers(1, 200),
    actors=st.integers(1, 5),
    kept_back=st.integers(0, 100),
    starts=st.integers(0, 1000),
    order=st.lists(st.integers(0, 11), min_size=200, max_size=200),
    deaths=st.sets(st.integers(0, 999), max_size=5),
)
def test_however_old_the_news_the_slack_holds_and_it_goes_on(
    intensity: float,
    batch: int,
    flush: int,
    actors: int,
    kept_back: int,
    starts: int,
    order: list[int],
    deaths: set[int],
) -> None:
    """Roles act, learn and exchange news in any order."""
    slack = 2 * least_slack(
        intensity=intensity, batch=batch, steps_at_once=flush * actors, steps_kept_back=kept_back
    )
    spec = PaceSpec(actors, 1, intensity, starts + batch, batch, slack)
    pace = Pace(spec, context=None)
    book = PaceBook(pace, {1 + n: n for n in range(actors)}, {0: 0})
    ends = [PaceHere(spec, -1, 0), *(PaceHere(spec, n, -1) for n in range(actors))]
    stale = 0
    for turn, which in enumerate([*order, *range(12)] * 4):
        role = which % (actors + 1)
        end = ends[role]
        if which < 6:
            book.heard(role, end.report())
            end.told(book.told(role))
        elif role == 0:
            stored = max(0, sum(int(e.steps_A[n]) for n, e in enumerate(ends[1:])) - kept_back)
            if end.may_learn() and stored >= batch:
                end.updates_L[0] += 1
        elif end.may_act():
            end.steps_A[role - 1] += flush
        if turn in deaths and role > 0:  # what it had not reported is lost
            book.lost(role)
            stale += flush
            ends[role] = PaceHere(spec, role - 1, -1)
            ends[role].told(book.told(role))
        steps = sum(int(e.steps_A[n]) for n, e in enumerate(ends[1:]))
        samples = int(ends[0].updates_L[0]) * batch
        due = (steps - spec.starts) * intensity
        assert due <= samples + slack + intensity * flush * actors + 1e-6
        assert samples <= max(0.0, due + stale * intensity) + 1e-6
    before = int(ends[0].updates_L[0])
    for _ in range(400 * max(1, round(spec.starts / flush / actors))):
        for role, end in enumerate(ends):
            book.heard(role, end.report())
            end.told(book.told(role))
            if role and end.may_act():
                end.steps_A[role - 1] += flush
            elif not role and end.may_learn():
                end.updates_L[0] += 1
        if ends[0].updates_L[0] > before + 3:
            return
    raise AssertionError("acting and learning wait for each other")
