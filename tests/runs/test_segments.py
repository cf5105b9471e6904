"""Segments: arrays in pieces, written once and read back whole, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from veldt.errors import CheckpointError, UsageError, VeldtError
from veldt.runs.segments import SegmentStore

DTYPES = st.sampled_from(["uint8", "bool", "int32", "int64", "float32", "float64"])
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))


def read(store: SegmentStore, record: dict[str, object]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    store.read(record, found.__setitem__)
    return found


@settings(deadline=None)
@given(
    arrays=st.lists(ARRAYS, min_size=1, max_size=4), cuts=st.lists(st.integers(0, 4), min_size=4, max_size=4)
)
def test_pieces_come_back_as_one(
    arrays: list[np.ndarray], cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = SegmentStore(tmp_path_factory.mktemp("segments") / "replay")
    pieces = {
        f"{i}/rows": [array[:cut], array[cut:]]
        for i, (array, cut) in enumerate(zip(arrays, cuts, strict=False))
    }
    found = read(store, store.write(pieces))
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(found[f"{i}/rows"], array)
        assert found[f"{i}/rows"].dtype == array.dtype and found[f"{i}/rows"].shape == array.shape


def test_the_safetensors_library_reads_segments(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    rows = np.arange(24, dtype=np.uint8).reshape(6, 4)
    record = SegmentStore(tmp_path).write({"a": [rows[2:], rows[:2]], "b": np.array([1.5])})
    loaded = load_file(tmp_path / str(record["file"]))
    np.testing.assert_array_equal(loaded["a"], np.concatenate([rows[2:], rows[:2]]))


@pytest.mark.parametrize("byte", [3, 20, -1])
def test_every_byte_is_under_the_checksum(byte: int, tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    record = store.write({"a": np.arange(100)})
    path = tmp_path / str(record["file"])
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=path.name):
        read(store, record)


@pytest.mark.parametrize("change", ["cut short", "longer", "gone"])
def test_a_damaged_segment_is_refused(change: str, tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    record = store.write({"a": np.arange(100)})
    path = tmp_path / str(record["file"])
    content = path.read_bytes()
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-8] if change == "cut short" else content + b"\0")
    with pytest.raises(CheckpointError, match=path.name):
        read(store, record)


def test_partial_segments_are_overwritten_and_unneeded_ones_removed(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    (tmp_path / "rows-000003.safetensors.partial").write_bytes(b"half")
    first, second = store.write({"a": np.arange(3)}), store.write({"a": np.arange(5)})
    store.keep({str(second["file"])})
    assert [path.name for path in tmp_path.iterdir()] == [second["file"]] != [first["file"]]


def test_an_error_of_the_disk_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(VeldtError, match="cannot write the replay buffer"):
        SegmentStore(tmp_path / "file" / "replay").write({"a": np.arange(3)})


NOT_SEGMENTS = ["notes.txt", "rows-mine.safetensors", "rows-000001.safetensors.bak", "rows-1.safetensors"]


def test_only_segments_are_removed(tmp_path: Path) -> None:
    store, elsewhere = SegmentStore(tmp_path / "replay"), tmp_path / "elsewhere"
    store.write({"a": np.arange(3)})
    elsewhere.write_text("mine")
    for name in NOT_SEGMENTS:
        (store.path / name).write_text("mine")
    (store.path / "rows-000007.safetensors").symlink_to(elsewhere)
    (store.path / "rows-000008.safetensors").mkdir()
    store.keep(set())
    left = sorted(path.name for path in store.path.iterdir())
    assert left == sorted([*NOT_SEGMENTS, "rows-000007.safetensors", "rows-000008.safetensors"])
    assert elsewhere.read_text() == "mine"


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    segment = str(SegmentStore(tmp_path / "elsewhere").write({"a": np.arange(3)})["file"])
    (tmp_path / "replay").symlink_to("elsewhere")
    store = SegmentStore(tmp_path / "replay")
    with pytest.raises(UsageError, match="replay is a symbolic link"):
        store.keep(set())
    with pytest.raises(UsageError, match="replay is a symbolic link"):
        store.write({"a": np.arange(3)})
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == [segment]


def test_a_segment_elsewhere_is_not_read(tmp_path: Path) -> None:
    record = SegmentStore(tmp_path / "elsewhere").write({"a": np.arange(3)})
    store, segment = SegmentStore(tmp_path / "replay"), tmp_path / "elsewhere" / str(record["file"])
    store.path.mkdir()
    for name in (f"../elsewhere/{segment.name}", str(segment)):
        with pytest.raises(CheckpointError, match="names a segment"):
            read(store, record | {"file": name})
    (store.path / segment.name).symlink_to(segment)
    with pytest.raises(CheckpointError, match="is a link"):
        read(store, record)
