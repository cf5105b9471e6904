"""A replay shard's role in this process: slots come from a list, and the test decides when rows reach the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.envs.trajectory import Rows, Trajectory, row_layouts
from veldt.exchange.slots import Arrays, ReceivedSlot
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.replay.archive import NewRows, ReplayArchive
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.settings import NStep
from veldt.runs.directory import RunDirectory
from veldt.runtime.role_messages import RoleMessage
from veldt.runtime.roles import Peers
from veldt.systems.roles import replay_shard
from veldt.systems.roles.messages import SnapshotPart, WrittenSegments
from veldt.systems.roles.replay_shard import ReplayShard, ShardPlan, run_shard

SPEC = EnvSpec({"frame": ArraySpec((3, 2), "uint8", stack=3)}, ActionSpec("discrete", sizes=(5,), start=(0,)))
STEPS, WIDTH, STORED = 3, 2, 4
DEADLINE_S = 20.0
CONFIG = with_settings(
    find("apex-dqn").config("CartPole-v1"),
    {
        "buffer_size": STEPS * WIDTH * STORED,
        "learning_starts": 12,
        "batch_size": 4,
        "num_envs": WIDTH,
        "actors": 1,
    },
)
RETURNS = NStep(2, 0.9, False, False)


def slot(seed: int) -> Arrays:
    """A slot in the middle of long episodes, with first priorities."""
    rng, made = np.random.default_rng(seed), Trajectory(SPEC, STEPS, WIDTH, None)
    made.observation["frame"][...] = rng.integers(0, 99, made.observation["frame"].shape)
    made.action[...] = rng.integers(0, 5, made.action.shape)
    made.reward[...] = rng.random(made.reward.shape)
    made.valid[...] = True
    made.episode_step[...] = 50
    layouts = row_layouts(SPEC, STEPS, WIDTH)
    arrays = {name: np.zeros(layout.shape, layout.dtype) for name, layout in layouts.items()}
    made.copy_to(arrays)
    return arrays | {"priority": rng.random((STEPS, WIDTH)).astype(np.float32), "is_first": np.array(False)}


class HeldWriter:
    """Keeps `ReplayArchive.write` from writing anything until `release` is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._released, write = threading.Event(), ReplayArchive.write

        def write_when_released(archive: ReplayArchive, rows: NewRows) -> list[dict[str, Any]]:
            assert self._released.wait(DEADLINE_S), "the writer was not released"
            return write(archive, rows)

        monkeypatch.setattr(ReplayArchive, "write", write_when_released)

    def release(self) -> None:
        self._released.set()


class ListedSlots:
    """The edge to the shard: returns slots of a list. When none is left, the writer is released."""

    def __init__(self, slots: Sequence[Arrays], writer: HeldWriter) -> None:
        self._slots, self._writer, self.num_stored = list(slots), writer, 0

    def consumer(self) -> ListedSlots:
        return self

    def take(self, deadline_s: float) -> ReceivedSlot | None:
        return ReceivedSlot(0, self._slots[self.num_stored]) if self.num_stored < len(self._slots) else None

    def release(self, ring: int) -> None:
        self.num_stored += 1

    def wait(self, seconds: float) -> None:
        self._writer.release()
        time.sleep(0.001)


class SnapshotControl:
    """Requests a snapshot once `STORED` slots are stored, and stops the role when its rows are on disk.

    The role sleeps only while it waits for the writer. The first sleep releases the writer.
    """

    restart_count, peers = 0, Peers(0, 1)

    def __init__(self, slots: ListedSlots, writer: HeldWriter) -> None:
        self._slots, self._writer, self._end = slots, writer, time.monotonic() + DEADLINE_S
        self.sent: list[RoleMessage] = []
        self.stored_at_sleep: list[int] = []  # slots that were stored when the role slept

    @property
    def stopping(self) -> bool:
        assert time.monotonic() < self._end, "the rows were not written in time"
        return any(isinstance(message, WrittenSegments) for message in self.sent)

    @property
    def requested_snapshot(self) -> int:
        return int(self._slots.num_stored >= STORED)

    def heartbeat(self) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        self.stored_at_sleep.append(self._slots.num_stored)
        self._writer.release()
        time.sleep(seconds)

    def send(self, message: RoleMessage) -> None:
        self.sent.append(message)

    def of(self, kind: type[Any]) -> Any:
        (message,) = (message for message in self.sent if isinstance(message, kind))
        return message


def new_buffer() -> ReplayBuffer:
    assert CONFIG.replay is not None
    return ReplayBuffer(SPEC, WIDTH, CONFIG.replay, RETURNS)


def test_rows_are_not_overwritten_before_they_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times as many rows arrive during the write as the buffer can hold."""
    run, writer = RunDirectory.create(tmp_path, "run").path, HeldWriter(monkeypatch)
    arrived = [slot(seed) for seed in range(4 * STORED)]
    monkeypatch.setattr(replay_shard, "use_batch_scheduler", lambda: None)  # it would change this process
    slots = ListedSlots(arrived, writer)
    control = SnapshotControl(slots, writer)
    plan = ShardPlan(CONFIG, SPEC, RETURNS, number=0, shards=1, width=WIDTH, first=[0], run=run)
    run_shard(control, plan, slots, [])
    assert control.stored_at_sleep and STORED <= control.stored_at_sleep[0] < 2 * STORED
    captured = new_buffer()
    for arrays in arrived[:STORED]:
        captured.append(Rows(SPEC, arrays), arrays["priority"])
    restored, group = new_buffer(), plan.group
    archive = ReplayArchive(RunDirectory(run).replay / group, restored)
    archive.restore(control.of(WrittenSegments).segments, control.of(SnapshotPart).groups[group])
    assert len(restored) == len(captured) > 0
    one, other = (ReplayBatch.allocate(batch_layouts(SPEC, 64)) for _ in range(2))
    for buffer, batch in ((restored, one), (captured, other)):
        buffer.sample(batch, seed=5)
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)


def slot_of(actor: int, begin: int, *, is_first: bool) -> Arrays:
    """The steps from `begin` on of the only episode of an actor, whose frames all have its number."""
    arrays = dict(slot(actor))
    arrays["observation/frame"] = np.full_like(arrays["observation/frame"], actor)
    arrays["episode_step"] = np.repeat(np.arange(begin, begin + STEPS + 1, dtype=np.int32)[:, None], WIDTH, 1)
    return arrays | {"is_first": np.array(is_first)}


def stored(
    arrived: Sequence[Arrays], insertions: int, monkeypatch: pytest.MonkeyPatch, *, drawn: int
) -> tuple[ReplayBuffer, ReplayBatch]:
    """The buffer of a shard that has stored these slots, and so many transitions drawn from it."""
    slots = ListedSlots(arrived, HeldWriter(monkeypatch))
    config = with_settings(CONFIG, {"buffer_size": 100})
    plan = ShardPlan(config, SPEC, RETURNS, 0, 1, width=WIDTH, first=[0], insertions=insertions)
    shard = ReplayShard(None, plan, slots, [])  # type: ignore[arg-type]
    while slots.num_stored < len(arrived):
        shard.step()
    batch = ReplayBatch.allocate(batch_layouts(SPEC, drawn))
    shard._buffer.sample(batch, seed=5)
    return shard._buffer, batch


@pytest.mark.parametrize("insertions", [1, 2])
def test_a_restarted_actor_does_not_continue_the_episode_of_the_one_that_was_killed(
    insertions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its first row, after random start steps, has the step number at which the other was killed."""
    arrived = [
        slot_of(1, 0, is_first=True),
        slot_of(1, STEPS, is_first=False),
        slot_of(2, 2 * STEPS, is_first=True),
        slot_of(2, 3 * STEPS, is_first=False),
    ]
    _, batch = stored(arrived, insertions, monkeypatch, drawn=400)
    actor_N, after_N = (
        frames.reshape(400, -1).max(1)
        for frames in (batch.observation["frame"], batch.next_observation["frame"])
    )
    assert np.array_equal(actor_N, after_N) and set(actor_N) == {1, 2}


def test_each_step_is_stored_as_often_as_asked_and_each_copy_has_its_own_priority(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Horgan et al. insert each transition k times (figure 6)."""
    arrived = [slot_of(1, 0, is_first=True), slot_of(1, STEPS, is_first=False)]
    once, drawn_once = stored(arrived, 1, monkeypatch, drawn=600)
    thrice, drawn = stored(arrived, 3, monkeypatch, drawn=600)
    assert len(thrice) == 3 * len(once) > 0
    assert len(set(drawn.key_N)) == 3 * len(set(drawn_once.key_N)) == len(thrice)
    np.testing.assert_array_equal(np.unique(drawn.mass_N), np.unique(drawn_once.mass_N))
    thrice.update(drawn.key_N[:1], np.array([9.0], np.float32))
    highest = drawn_once.mass_N.max()
    thrice.sample(drawn, seed=6)
    assert len(set(drawn.key_N[drawn.mass_N > highest])) == 1
