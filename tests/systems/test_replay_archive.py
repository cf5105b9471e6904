"""The replay buffer's copy on disk is complete after any sequence of saves, and an incomplete one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.envs.trajectory import Trajectory
from veldt.errors import CheckpointError
from veldt.replay.archive import ReplayArchive
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.settings import NStep, ReplayConfig

SPEC = EnvSpec(
    {"frame": ArraySpec((3, 2), "uint8", stack=3), "speed": ArraySpec((2,), "float32")},
    ActionSpec("discrete", sizes=(5,), start=(0,)),
)
STEPS, WIDTH = 3, 2


def new_buffer(compress: bool = False, size: int = 24) -> ReplayBuffer:
    config = ReplayConfig(buffer_size=size, replay="prioritised", compress_frames=compress)
    return ReplayBuffer(SPEC, WIDTH, config, NStep(2, 0.9, False, False))


def slot(seed: int, valid: bool) -> Trajectory:
    """Steps of long episodes, or reset_steps alone: then an open episode ends, and no step is counted."""
    rng, made = np.random.default_rng(seed), Trajectory(SPEC, STEPS, WIDTH, None)
    for array in made.observation.values():
        array[...] = rng.integers(0, 99, array.shape)
    made.action[...] = rng.integers(0, 5, made.action.shape)
    made.reward[...] = rng.random(made.reward.shape)
    made.valid[...] = valid
    made.episode_step[...] = 50
    return made


def save(archive: ReplayArchive) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    rows, arrays = archive.capture()
    return archive.write(rows), arrays


def contents(replay: ReplayBuffer) -> list[Any]:
    ring = replay.ring
    batch = ReplayBatch.allocate(batch_layouts(SPEC, len(replay)))
    if len(replay):
        replay.sample(batch, 3)
    return [ring.head, ring.open, len(replay), *batch.arrays.values()]


def assert_same(one: ReplayBuffer, other: ReplayBuffer) -> None:
    for a, b in zip(contents(one), contents(other), strict=True):
        assert np.array_equal(a, b)


@settings(max_examples=40, deadline=None)
@given(
    # A slot of steps, a slot of reset_steps, a save.
    events=st.lists(st.sampled_from(["steps", "reset_steps", "save"]), min_size=1, max_size=30),
    compress=st.booleans(),
)
def test_a_saved_buffer_is_restored_after_any_sequence_of_events(
    events: list[str], compress: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, replay = tmp_path_factory.mktemp("run") / "replay", new_buffer(compress)
    archive = ReplayArchive(path, replay)
    for number, event in enumerate([*events, "save"]):
        if event != "save":
            replay.append(slot(number, event == "steps"))
            continue
        segments, arrays = save(archive)
        again = new_buffer(compress)
        ReplayArchive(path, again).restore(segments, arrays)
        assert_same(replay, again)
        # And it goes on from there as the first does.
        for one in (replay, again):
            one.append(slot(1000 + number, True))
        assert_same(replay, again)


@settings(max_examples=60, deadline=None)
@given(
    appends=st.lists(st.booleans(), max_size=20),  # of steps, or of reset_steps alone
    more=st.lists(st.booleans(), min_size=1, max_size=20),
    compress=st.booleans(),
)
def test_captured_rows_may_be_written_later(
    appends: list[bool], more: list[bool], compress: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    replay, promised = new_buffer(compress, 60), new_buffer(compress, 60)
    for number, valid in enumerate(appends):
        for one in (replay, promised):
            one.append(slot(number, valid))
    path = tmp_path_factory.mktemp("run")
    archive = ReplayArchive(path, replay)
    rows, arrays = archive.capture()
    captured = {name: np.concatenate(pieces) for name, pieces in rows.arrays.items()}
    for number, valid in enumerate(more):
        if archive.would_overwrite(STEPS):
            break
        replay.append(slot(100 + number, valid))
    # Nothing moves while it is written: the checksum would not match.
    assert all(np.array_equal(np.concatenate(rows.arrays[name]), captured[name]) for name in captured)
    again = new_buffer(compress, 60)
    ReplayArchive(path, again).restore(archive.write(rows), arrays)
    assert_same(promised, again)
    assert not archive.would_overwrite(STEPS)


def test_a_gap_is_refused(tmp_path: Path) -> None:
    replay = new_buffer()
    archive = ReplayArchive(tmp_path, replay)
    for number in range(4):
        replay.append(slot(number, True))
        segments, arrays = save(archive)
    for missing in range(len(segments)):
        left = [segment for index, segment in enumerate(segments) if index != missing]
        with pytest.raises(CheckpointError, match=r"rows.* missing.*--checkpoint-replay none"):
            ReplayArchive(tmp_path, new_buffer()).restore(left, arrays)


@pytest.mark.parametrize("byte", range(0, 400, 7))
def test_every_damaged_file_is_refused(byte: int, tmp_path: Path) -> None:
    replay = new_buffer()
    replay.append(slot(1, True))
    segments, arrays = save(ReplayArchive(tmp_path, replay))
    path = tmp_path / segments[0]["file"]
    content = bytearray(path.read_bytes())
    content[byte] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="replay buffer cannot be restored"):
        ReplayArchive(tmp_path, new_buffer()).restore(segments, arrays)


def test_segments_without_needed_rows_are_not_listed(tmp_path: Path) -> None:
    replay = new_buffer()
    archive = ReplayArchive(tmp_path, replay)
    for number in range(20):
        replay.append(slot(number, True))
        segments, _ = save(archive)
    assert 4 <= len(segments) <= 8  # a ring of some 16 rows, in segments of 3 rows and one


def test_priorities_that_an_older_version_has_saved_are_restored(tmp_path: Path) -> None:
    replay, again = new_buffer(), new_buffer()
    for number in range(3):
        replay.append(slot(number, True))
    batch = ReplayBatch.allocate(batch_layouts(SPEC, 4))
    replay.sample(batch, 1)
    replay.update(batch.key_N, np.array([9.0, 0.5, 7.0, 3.0]))
    segments, arrays = save(ReplayArchive(tmp_path / "replay", replay))
    older = {name.removeprefix("sampling/"): array for name, array in arrays.items()}
    assert older.keys() != arrays.keys()
    ReplayArchive(tmp_path / "replay", again).restore(segments, older)
    assert_same(replay, again)
