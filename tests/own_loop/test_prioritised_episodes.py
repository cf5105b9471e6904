"""Whole episodes by priority, through the real ends and shards of a buffer, against a list of episodes."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

import veldt
from veldt.exchange.graph import make_local_edges
from veldt.own_loop.buffer_ends import BufferAdder, BufferSampler, SampledBatch
from veldt.own_loop.piece import Users
from veldt.own_loop.role_process import RoleProcess
from veldt.runtime.supervision.inline import InlineControl

ROW = {"number": ((), "int64"), "observation": ((2,), "float32")}
STEPS, SHARE, BATCH, ACTORS = 5, 7, 64, 2
ALPHA, BETA = 0.6, 0.4
USERS = Users("replay", {"actor": ACTORS, "learner": 1})
# Batches that may have been requested before the last change: one is in use, and two are ahead.
STALE = 3


class Episode:
    """Its steps tell which it is; `priority` is its newest."""

    def __init__(self, number: int, rng: np.random.Generator, priority: float) -> None:
        self.number, self.priority = number, priority
        length = int(rng.integers(1, STEPS + 1))
        self.row = {
            "number": 100 * number + np.arange(length),
            "observation": rng.normal(size=(length, 2)).astype(np.float32),
        }

    @property
    def mass(self) -> float:
        return (self.priority + 1e-6) ** ALPHA


class Shard:
    """The newest episodes, as a list."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.largest = 1.0

    def add(self, episode: Episode) -> None:
        self.largest = max(self.largest, episode.priority)
        self.episodes = [*self.episodes, episode][-SHARE:]

    def update(self, number: int, priority: float) -> bool:
        """Whether the episode is still there."""
        for episode in self.episodes:
            if episode.number == number:
                episode.priority, self.largest = priority, max(self.largest, priority)
                return True
        return False


class Program:
    """A buffer with its actors and learner, and the lists that it has to equal."""

    def __init__(
        self, shards: int, ends: tuple[list[BufferAdder], BufferSampler], mass_S: np.ndarray
    ) -> None:
        (self.adders, self.sampler), self._mass_S = ends, mass_S
        self.shards = [Shard() for _ in range(shards)]
        self.rng, self.dropped, self._numbers, self._stale = np.random.default_rng(4), 0, 0, STALE
        self._shard_of: dict[int, int] = {}

    def add(self, count: int) -> None:
        for _ in range(count):
            actor = int(self.rng.integers(ACTORS))
            shard = self.shards[actor % len(self.shards)]
            given = None if self.rng.random() < 0.3 else self._priority()
            overwritten = shard.episodes[0].priority if len(shard.episodes) == SHARE else None
            if overwritten in (given, shard.largest):  # the weight has to change: `_wait` sees only that
                given = float(self.rng.uniform(0.1, 5))
            episode = Episode(self._numbers, self.rng, shard.largest if given is None else given)
            self.adders[actor].add(priority=given, **episode.row)
            shard.add(episode)
            self._shard_of[episode.number] = actor % len(self.shards)
            self._numbers += 1
            self._wait()  # a shard takes the episodes of several actors in any order

    def update(self, batch: SampledBatch) -> None:
        """Gives each episode of the batch a new priority; those that were overwritten since are dropped."""
        number_N = (batch["number"][:, 0] // 100).tolist()
        new = {number: self._priority() for number in number_N}
        self.sampler.update(torch.tensor([new[number] for number in number_N], dtype=torch.float64))
        for number in number_N:
            shard = self.shards[self._shard_of[number]]
            self.dropped += not shard.update(number, new[number])
        self._wait()

    def _priority(self) -> float:
        return float(self.rng.uniform(0.1, 5)) if self.rng.random() < 0.8 else 0.0

    def _wait(self) -> None:
        """Waits until the shards have the weight of the lists."""
        mass_S = [sum(episode.mass for episode in shard.episodes) for shard in self.shards]
        wanted = [*mass_S, sum(len(shard.episodes) for shard in self.shards), self.dropped]
        end = time.monotonic() + 20
        while not np.allclose(found := self._found(), wanted, rtol=1e-6):
            assert time.monotonic() < end, (found, wanted)
            time.sleep(0.001)
        self._stale = STALE

    def _found(self) -> list[float]:
        return [*self._mass_S, len(self.sampler), self.sampler.dropped]

    def checked(self) -> SampledBatch:
        """A batch that is drawn from the lists."""
        for _ in range(self._stale):
            assert self.sampler.sample() is not None
        self._stale = 0
        batch = self.sampler.sample(BETA)
        assert batch is not None
        stored = {episode.number: episode for shard in self.shards for episode in shard.episodes}
        drawn = [stored[number] for number in (batch["number"][:, 0] // 100).tolist()]
        assert batch.length is not None and batch["observation"].shape[1] == int(batch.length.max())
        for n, episode in enumerate(drawn):
            length = len(episode.row["number"])
            assert batch.length[n] == length == int(batch.mask[n].sum()) and batch.mask[n, :length].all()
            for name, array in episode.row.items():
                np.testing.assert_array_equal(batch[name][n, :length], array)
                assert not batch[name][n, length:].any()
        mass_N = np.array([episode.mass for episode in drawn])
        np.testing.assert_allclose(batch.weight, (mass_N / mass_N.min()) ** -BETA, rtol=1e-4)
        return batch

    def check_shares(self, batches: int) -> None:
        """Each episode is drawn in proportion to its weight, in each batch but for the edges of intervals."""
        episodes = [episode for shard in self.shards for episode in shard.episodes]
        mass = np.array([episode.mass for episode in episodes])
        count = np.zeros((batches, len(episodes)))
        for each in count:
            numbers = (self.checked()["number"][:, 0] // 100).tolist()
            each[:] = [numbers.count(episode.number) for episode in episodes]
        expected = BATCH * mass / mass.sum()
        assert np.abs(count - expected).max() < 3
        np.testing.assert_allclose(count.mean(0), expected, atol=0.6)


@contextmanager
def program(shards: int) -> Iterator[Program]:
    buffer = veldt.DistributedBuffer(
        ROW,
        "actor",
        "learner",
        capacity=SHARE * shards,
        batch_size=BATCH,
        episode_steps=STEPS,
        alpha=ALPHA,
        learning_starts=1,
        shards=shards,
        deadline_s=20.0,
    )
    parts = buffer.parts(USERS)
    edges = make_local_edges(parts.edges, multiprocessing.get_context("forkserver"))
    (role,) = parts.roles
    control = InlineControl()

    def ends(name: str, index: int) -> Any:
        wired = {at: edges[edge] for at, edge in buffer.wiring(USERS, name, index).items()}  # type: ignore[index]
        return buffer.open(USERS, RoleProcess(control, name, index, USERS.counts[name]), wired, {})

    threads = []
    for plan, wiring in zip(role.plans, role.edges, strict=True):
        batches = tuple(edges[name] for name in wiring["batches"])
        given = (control, plan, edges[wiring["rows"]], batches)  # type: ignore[index]
        threads.append(threading.Thread(target=role.entry, args=given, daemon=True))
    for thread in threads:
        thread.start()
    mass_S = edges["replay batches 0"].ledger("mass")
    try:
        yield Program(shards, ([ends("actor", index) for index in range(ACTORS)], ends("learner", 0)), mass_S)
    finally:
        control.stopping = True
        for thread in threads:
            thread.join(20)


@pytest.mark.parametrize("shards", [1, 2])
def test_episodes_are_drawn_whole_by_their_newest_priorities(shards: int) -> None:
    with program(shards) as own:
        own.add(3)
        for _ in range(12):
            own.update(own.checked())
            own.add(2)
            own.checked()
        own.check_shares(batches=40)


@pytest.mark.parametrize("shards", [1, 2])
def test_priorities_of_overwritten_episodes_are_dropped(shards: int) -> None:
    with program(shards) as own:
        own.add(2 * SHARE * shards)
        for _ in range(3):
            batch = own.checked()
            own.add(3)
            own.update(batch)
        assert own.dropped > 0
        own.check_shares(batches=20)
