"""Files of a run that somebody else has written or damaged: refused in a sentence, without memory or time for them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veldt.errors import CheckpointError, UsageError, VeldtError
from veldt.runs import strict_json
from veldt.runs.checkpoint_files import restoring
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import EpisodeLog, read_episodes
from veldt.runs.files import AppendFile, read_json_lines
from veldt.runs.segments import SegmentStore

DEEP = "[" * 100_000
WEIGHTS = {"weights": {"w": np.arange(3.0)}}


def make_sparse(path: Path) -> Path:
    path.touch()
    os.truncate(path, 1 << 40)
    return path


@pytest.mark.parametrize(
    "text", [DEEP, '{"a":' * 500 + "0" + "}" * 500, str(10**400), "NaN", b'"\xff"', b"\0"]
)
def test_text_beyond_the_limits_is_no_json(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        strict_json.loads(text)
    with pytest.raises(ValueError):
        strict_json.loads_plain(text)


def test_settings_without_end_are_not_read(tmp_path: Path) -> None:
    make_sparse(tmp_path / "config.json")
    with pytest.raises(UsageError, match="larger than"):
        RunDirectory.open(tmp_path).read_config()


def test_nested_settings_are_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(DEEP)
    with pytest.raises(UsageError, match="nests deeper than 100 levels"):
        RunDirectory.open(tmp_path).read_config()


def test_lines_without_end_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="larger than"):
        read_json_lines(make_sparse(tmp_path / "metrics.jsonl"))


def test_lines_beyond_the_limits_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1}}\n{DEEP}\n{{"step": {10**400}}}\n{{"step": NaN}}\n{{"step": 2}}\n')
    assert read_json_lines(path) == [{"step": 1}, {"step": 2}]


def test_the_end_of_a_line_is_not_looked_for_without_end(tmp_path: Path) -> None:
    file = AppendFile(make_sparse(tmp_path / "metrics.jsonl"), "the metrics")
    try:
        with pytest.raises(UsageError, match="no end of a line"):
            file.drop_torn_line()
    finally:
        file.close()


def test_a_nested_manifest_is_passed_over_for_an_older_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints")
    store.save(1, WEIGHTS, {})
    (store.save(2, WEIGHTS, {}) / "manifest.json").write_text(DEEP)
    notes: list[str] = []
    assert store.newest(notes.append).step == 1
    assert len(notes) == 1 and "nests deeper" in notes[0]


def test_checkpoints_that_are_a_link_to_itself_are_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").symlink_to("checkpoints")
    with pytest.raises(CheckpointError, match="checkpoints cannot be read"):
        CheckpointStore(tmp_path / "checkpoints").newest(lambda _: None)


def test_values_that_veldt_does_not_store_are_no_error_of_veldts(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(1, WEIGHTS, {})
    checkpoint = store.newest(lambda _: None)
    with (
        pytest.raises(CheckpointError, match=r"step-000000000001 does not hold .*KeyError"),
        restoring(checkpoint),
    ):
        checkpoint.meta["learners"]
    with pytest.raises(KeyError), restoring(None):
        checkpoint.meta["learners"]


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [2**62, 4], "data_offsets": [0, 2**64]},
        {"shape": [2**40], "data_offsets": [0, 2**40]},
        {"shape": [-1], "data_offsets": [0, 8]},
        {"shape": [1] * 100, "data_offsets": [0, 1]},
        {"shape": [8], "data_offsets": [8, 0]},
        {"shape": "x", "data_offsets": [0, 8]},
        {"shape": [8]},
        [],
    ],
)
def test_a_segment_with_forged_sizes_takes_no_memory(entry: Any, tmp_path: Path) -> None:
    header = {"a": {"dtype": "U8", **entry} if isinstance(entry, dict) else entry}
    check_refused(json.dumps(header).encode(), None, tmp_path)


@pytest.mark.parametrize(("text", "length"), [(b"[]", 2), (b"{}", 2**62), (DEEP.encode(), None), (b"", 0)])
def test_a_segment_with_a_forged_header_is_refused(text: bytes, length: int | None, tmp_path: Path) -> None:
    check_refused(text, length, tmp_path)


def check_refused(header: bytes, length: int | None, directory: Path) -> None:
    """Checks that a segment with this header is refused, although its checksums are right."""
    begin = (len(header) if length is None else length).to_bytes(8, "little") + header
    data = begin + bytes(8)
    (directory / "rows-000001.safetensors").write_bytes(data)
    read = data if length == 2**62 else begin
    record = {
        "file": "rows-000001.safetensors",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "header": hashlib.sha256(read).hexdigest(),
    }
    with pytest.raises(CheckpointError, match="cannot be read"):
        SegmentStore(directory).read(record, lambda name, array: pytest.fail(f"{name} was read"))


@pytest.mark.parametrize(
    "change",
    [
        {"env": None},
        {"length": [2**32]},
        {"score": "x"},
        {"offset": -1},
        {"dtype": "S100000000000"},
        {"dtype": ["uint8"]},
        {"shape": [-1]},
        {"shape": 3},
        {"shape": [1] * 100},
    ],
)
def test_an_episode_with_values_of_other_types_is_skipped(change: dict[str, Any], tmp_path: Path) -> None:
    write_episodes(tmp_path, change)
    assert [record.episode for record in read_episodes(tmp_path)] == [1]


@pytest.mark.parametrize("change", [{"shape": [2**62, 4]}, {"shape": [2**40]}, {"offset": 2**62}])
def test_actions_that_are_not_there_take_no_memory(change: dict[str, Any], tmp_path: Path) -> None:
    write_episodes(tmp_path, change)
    with pytest.raises(VeldtError, match="truncated"):
        read_episodes(tmp_path)[0].actions()


def write_episodes(directory: Path, change: dict[str, Any]) -> None:
    """Writes two episodes, the first one with changed values."""
    log = EpisodeLog(directory)
    for episode in range(2):
        log.append(env=0, episode=episode, seed=7, step=3, length=3, score=1.0, actions=np.arange(3))
    log.close()
    path = directory / "episodes.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(f"{json.dumps(json.loads(first) | change)}\n{second}\n")
