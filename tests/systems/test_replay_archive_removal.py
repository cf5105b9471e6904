"""Segments of several replay buffers that no checkpoint needs are removed, inside the run only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from veldt.replay.needed_segments import remove_unneeded
from veldt.runs.segments import SegmentStore


def segments(directory: Path, count: int) -> list[str]:
    store = SegmentStore(directory)
    return [str(store.write({"a": np.zeros(2)})["file"]) for _ in range(count)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_segments_that_a_checkpoint_names_are_kept(tmp_path: Path) -> None:
    first, second = segments(tmp_path / "shard-0", 2)
    segments(tmp_path / "shard-1", 2)
    remove_unneeded(tmp_path, [{"segments": {"shard-0": [{"file": second}]}}])
    assert (names(tmp_path / "shard-0"), names(tmp_path / "shard-1")) == ([second], [])
    assert first != second


@pytest.mark.parametrize(
    "name", ["../elsewhere", "shard-0/../../elsewhere", "{tmp_path}/elsewhere", "elsewhere"]
)
def test_replay_folders_outside_of_the_run_are_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "replay" / "shard-0").mkdir(parents=True)
    for place in (tmp_path / "elsewhere", tmp_path / "replay" / "elsewhere"):
        segments(place, 1)
    remove_unneeded(tmp_path / "replay", [{"segments": {name.format(tmp_path=tmp_path): []}}])
    assert len(names(tmp_path / "elsewhere")) == len(names(tmp_path / "replay" / "elsewhere")) == 1
