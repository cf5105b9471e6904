"""Finished episodes come back with their actions; a resume takes back those finished after the checkpoint."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from veldt.errors import UsageError, VeldtError
from veldt.runs.episodes import EpisodeLog, read_episodes
from veldt.tracking.loggers.metrics_file import MetricsFile

ACTIONS = st.sampled_from(["int64", "int32", "uint8", "bool", "float32", "float64"]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=6))
)


def add(log: EpisodeLog, episode: int, actions: Any, **fields: Any) -> None:
    given_fields = {
        "env": 2,
        "seed": 2**63 + episode,
        "step": 100 * episode,
        "length": len(actions),
        "score": -1.5,
    }
    log.append(episode=episode, actions=np.asarray(actions), **(given_fields | fields))


@settings(max_examples=40, deadline=None)
@given(st.lists(ACTIONS, max_size=5))
def test_episodes_round_trip(all_actions: list[np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = EpisodeLog(Path(directory))
        for episode, actions in enumerate(all_actions):
            add(log, episode, actions, prefix=episode)
        log.close()
        records = read_episodes(Path(directory))
        assert len(records) == len(all_actions)
        for episode, (record, actions) in enumerate(zip(records, all_actions, strict=True)):
            assert (record.env, record.episode, record.seed) == (2, episode, 2**63 + episode)
            assert (record.step, record.length, record.score) == (100 * episode, len(actions), -1.5)
            assert (record.prefix, record.kept) == (episode, True)
            np.testing.assert_array_equal(record.actions(), actions)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0, 255], "uint8"),
        ([-1, 127], "int8"),
        ([0, 256], "uint16"),
        ([-129, 0], "int16"),
        ([0, 2**33], "uint64"),
        ([], "uint8"),
    ],
)
def test_integers_take_the_smallest_type_that_holds_them(
    tmp_path: Path, values: list[int], dtype: str
) -> None:
    log = EpisodeLog(tmp_path)
    add(log, 0, np.array(values, np.int64))
    log.close()
    assert read_episodes(tmp_path)[0].actions().dtype == dtype


def test_a_resume_removes_later_episodes(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path)
    add(log, 0, [1, 2, 3])
    log.flush()
    position = log.position()
    assert position == tuple((tmp_path / name).stat().st_size for name in ("episodes.jsonl", "actions.bin"))
    add(log, 1, [4, 5])
    log.close()
    log = EpisodeLog(tmp_path, resume=position)
    assert log.position() == position
    add(log, 9, [6])
    log.close()
    assert [(record.episode, record.actions().tolist()) for record in read_episodes(tmp_path)] == [
        (0, [1, 2, 3]),
        (9, [6]),
    ]


def test_a_torn_last_line_is_left_out_and_not_written_onto(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path)
    add(log, 0, [1])
    add(log, 1, [2])
    log.close()
    index = tmp_path / "episodes.jsonl"
    index.write_bytes(index.read_bytes()[:-9])
    assert [record.episode for record in read_episodes(tmp_path)] == [0]
    log = EpisodeLog(tmp_path)
    add(log, 2, [3])
    log.close()
    assert [record.actions().tolist() for record in read_episodes(tmp_path)] == [[1], [3]]


def test_episodes_are_buffered_until_flush(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path)
    add(log, 0, [1])
    assert read_episodes(tmp_path) == []
    log.flush()
    assert len(read_episodes(tmp_path)) == 1
    log.close()


def test_beyond_the_limit_episodes_are_listed_without_actions(tmp_path: Path) -> None:
    warnings: list[str] = []
    log = EpisodeLog(tmp_path, limit_bytes=10, on_warning=warnings.append)
    for episode in range(4):
        add(log, episode, np.zeros(6, np.uint8))
    log.close()
    records = read_episodes(tmp_path)
    assert [record.kept for record in records] == [True, False, False, False]
    assert len(warnings) == 1
    with pytest.raises(VeldtError, match="were not kept"):
        records[1].actions()


def test_actions_that_are_gone_are_named(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path)
    add(log, 7, [1, 2, 3])
    log.close()
    (tmp_path / "actions.bin").write_bytes(b"\x01")
    with pytest.raises(VeldtError, match="truncated: it ends before the actions of episode 7 of env 2"):
        read_episodes(tmp_path)[0].actions()


def test_actions_of_no_number_are_refused(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path)
    with pytest.raises(TypeError, match="integers or floats"):
        add(log, 0, ["left"])
    log.close()


def test_a_full_disk_is_explained_and_earlier_episodes_are_intact(
    small_disk: Callable[[int], AbstractContextManager[Path]],
) -> None:
    with small_disk(65536) as place:
        log = EpisodeLog(place)
        add(log, 0, np.arange(100))
        log.flush()
        add(log, 1, np.random.default_rng(0).normal(size=20_000))
        with pytest.raises(VeldtError, match=r"the actions of episodes to .*actions\.bin: the disk is full"):
            log.flush()
        records = read_episodes(place)
        assert [record.actions().tolist() for record in records] == [list(range(100))]
        assert (place / "actions.bin").stat().st_size == 100


@pytest.mark.parametrize(("kind", "name"), [(EpisodeLog, "episodes.jsonl"), (MetricsFile, "metrics.jsonl")])
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_a_damaged_file_is_not_left_open(kind: Any, name: str, tmp_path: Path) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(64 << 20)  # zeros, without the end of a line
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UsageError, match="is damaged"):
        kind(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
