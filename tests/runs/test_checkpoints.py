"""A checkpoint round-trips or is refused; no kill and no full disk damages an older one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
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

from veldt.errors import CheckpointError, UsageError, VeldtError
from veldt.runs.checkpoints import CheckpointStore

SmallDisk = Callable[[int], AbstractContextManager[Path]]
DTYPES = ["uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "bool"]
DTYPES += ["float16", "float32", "float64", ">f8", "complex64"]
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,10}", fullmatch=True)
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8).filter(lambda text: text not in NOT_FINITE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def refuse(sentence: str) -> None:
    raise AssertionError(f"reported as damaged: {sentence}")


def some_groups(value: float = 1.0) -> dict[str, dict[str, np.ndarray]]:
    return {
        "weights": {"w": np.full((3, 4), value, np.float32), "b": np.arange(4, dtype=np.int64)},
        "statistics": {"empty": np.empty((0, 5), np.uint8), "scalar": np.array(2.5)},
    }


def assert_same_arrays(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for group in wanted:
        assert found[group].keys() == wanted[group].keys()
        for name, array in wanted[group].items():
            assert found[group][name].dtype == array.dtype.newbyteorder("=")
            assert found[group][name].shape == array.shape
            np.testing.assert_array_equal(found[group][name], array)


@settings(max_examples=40, deadline=None)
@given(
    groups=st.dictionaries(
        NAMES, st.dictionaries(st.text(min_size=1, max_size=8), ARRAYS, max_size=4), max_size=3
    ),
    meta=st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=3),
    step=st.integers(0, 10**13),
)
def test_arrays_and_meta_round_trip(groups: dict[str, Any], meta: dict[str, Any], step: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = CheckpointStore(Path(directory)).save(step, groups, meta, score=1.5)
        loaded = CheckpointStore.load(path)
    assert (loaded.step, loaded.score) == (step, 1.5)
    np.testing.assert_equal(loaded.meta, meta)
    assert_same_arrays(loaded.groups, groups)


def test_arrays_that_are_not_contiguous_round_trip(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    groups = {"weights": {"transposed": array.T, "strided": array[::2, ::3], "reversed": array[::-1]}}
    assert_same_arrays(CheckpointStore.load(CheckpointStore(tmp_path).save(1, groups, {})).groups, groups)


def test_loaded_arrays_are_aligned_and_can_be_written_to(tmp_path: Path) -> None:
    groups = {"mixed": {"a": np.zeros(3, np.uint8), "b": np.zeros(5), "c": np.zeros(1, np.int16)}}
    for array in CheckpointStore.load(CheckpointStore(tmp_path).save(1, groups, {})).groups["mixed"].values():
        assert array.flags.aligned
        array[:] = 1


def test_arrays_that_safetensors_cannot_hold_are_refused_and_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'names' has dtype"):
        CheckpointStore(tmp_path).save(1, {"weights": {"names": np.array(["a"])}}, {})
    with pytest.raises(ValueError, match=r"\.\./weights"):
        CheckpointStore(tmp_path).save(1, {"../weights": {}}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_single_flipped_byte_anywhere_is_noticed(tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path).save(7, some_groups(), {"seed": 1, "epsilon": 0.1}, score=3.0)
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for position in range(0, len(whole), 3):
            damaged = bytearray(whole)
            damaged[position] ^= 0x01
            file.write_bytes(damaged)
            try:
                loaded = CheckpointStore.load(path)
            except CheckpointError as error:
                assert str(file) in str(error)
            else:
                # White space between the manifest's values is the one thing that carries nothing.
                assert whole[position : position + 1].isspace()
                assert (loaded.meta, loaded.score) == ({"seed": 1, "epsilon": 0.1}, 3.0)
        file.write_bytes(whole)
    CheckpointStore.load(path)


def test_truncated_and_missing_files_are_named(tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path).save(7, some_groups(), {})
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for size in {0, 1, len(whole) // 2, len(whole) - 1}:
            file.write_bytes(whole[:size])
            with pytest.raises(CheckpointError, match=file.name):
                CheckpointStore.load(path)
        file.unlink()
        with pytest.raises(CheckpointError, match=file.name):
            CheckpointStore.load(path)
        file.write_bytes(whole)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "not JSON", '{"format": "1"}', '{"format": 1, "files": {}}', "\xff"]
)
def test_a_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    path = CheckpointStore(tmp_path).save(7, some_groups(), {})
    (path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        CheckpointStore.load(path)


@pytest.mark.parametrize(
    "values",
    [
        *({"step": step} for step in ("7", "../7", 7.0, True, -7, None, [7])),
        {"score": "3"},
        {"meta": []},
        {"files": []},
        {"files": {"weights.safetensors": None}},
        {"files": {"weights.safetensors": {"size": "1", "sha256": "0"}}},
        {"files": {"weights.safetensors": {"size": 1, "sha256": 0}}},
    ],
)
def test_a_manifest_with_values_of_other_types_is_refused(tmp_path: Path, values: dict[str, object]) -> None:
    """Such a manifest can have a correct checksum."""
    path = CheckpointStore(tmp_path).save(7, some_groups(), {})
    manifest = json.loads((path / "manifest.json").read_text()) | values
    del manifest["sha256"]
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (path / "manifest.json").write_text(json.dumps({**manifest, "sha256": digest}))
    with pytest.raises(CheckpointError, match=r"manifest\.json was not written by veldt: its step"):
        CheckpointStore.load(path)


def test_a_newer_format_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path).save(7, some_groups(), {})
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(CheckpointError, match=r"newer veldt.*upgrade"):
        CheckpointStore.load(path)


def test_newest_skips_damaged_checkpoints_with_a_warning(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    paths = [store.save(step, some_groups(step), {}) for step in (1, 2, 3)]
    (paths[2] / "weights.safetensors").unlink()
    (paths[1] / "manifest.json").write_text("{")
    damaged: list[str] = []
    assert store.newest(damaged.append).step == 1
    assert [str(paths[2]) in damaged[0], str(paths[1]) in damaged[1], len(damaged)] == [True, True, 2]
    shutil.rmtree(paths[0])
    with pytest.raises(CheckpointError, match="none of the 2 checkpoints"):
        store.newest(damaged.append)


def test_newest_reads_the_next_checkpoint_if_one_is_pruned_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    store.save(1, some_groups(1.0), {})
    load = store.load

    def saved_meanwhile(path: Path) -> Any:
        if path.name.endswith("1"):
            store.save(2, some_groups(2.0), {})
        return load(path)

    monkeypatch.setattr(store, "load", saved_meanwhile)
    assert store.newest(refuse).step == 2


def test_without_any_checkpoint_there_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="no checkpoint"):
            CheckpointStore(path).newest(refuse)


def test_pruning_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    scores = [None, 5.0, 9.0, 9.0, float("nan"), 1.0, 2.0]
    for step, score in enumerate(scores):
        store.save(step, some_groups(), {}, score)
    # The later of two equals is the best one.
    assert sorted(int(path.name[5:]) for path in tmp_path.iterdir()) == [3, 5, 6]
    assert (store.best(refuse).step, store.newest(refuse).step) == (3, 6)
    (tmp_path / "step-000000000003" / "weights.safetensors").unlink()
    assert store.best(lambda _: None).step == 6


def test_any_score_is_better_than_no_score(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    for step, score in enumerate([None, None, -500.0, None, None]):
        store.save(step, some_groups(), {}, score)
    assert (store.best(refuse).step, store.best(refuse).score, store.newest(refuse).step) == (2, -500.0, 4)
    assert store.newest(refuse).score is None


def test_best_is_the_newest_where_nothing_was_scored(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    for step in (1, 2, 3):
        store.save(step, some_groups(), {})
    assert store.best(refuse).step == 3


def test_pruning_counts_whole_checkpoints_only(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    paths = [store.save(step, some_groups(), {}) for step in (1, 2)]
    (paths[1] / "manifest.json").write_text("damaged")
    store.save(3, some_groups(), {})
    assert store.newest(refuse).step == 3
    assert paths[0].exists(), "the damaged one took the place of a whole one"


def test_a_checkpoint_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(1, some_groups(1.0), {})
    store.save(1, some_groups(2.0), {})
    assert store.newest(refuse).groups["weights"]["w"][0, 0] == 2.0
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="needs /proc to tell which file a descriptor is"
)
def test_everything_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = CheckpointStore(tmp_path), []
    rename = os.rename
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: calls.append(Path(f"/proc/self/fd/{descriptor}").readlink())
    )
    monkeypatch.setattr(os, "rename", lambda *names: (calls.append(Path("renamed")), rename(*names)))
    store.save(1, some_groups(), {})
    synced = [path.name for path in calls]
    assert synced[:3] == ["weights.safetensors", "statistics.safetensors", "manifest.json"]
    assert synced[3].startswith(".partial-")
    assert synced[4:] == ["renamed", tmp_path.name]


def die_at_call(number: int) -> None:
    """Make this process kill itself, as `kill -9` would, at its `number`th call that touches the disk."""
    calls = 0

    def counted(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in ("write", "fsync", "rename", "mkdir", "rmdir", "unlink"):
        setattr(os, name, counted(getattr(os, name)))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("new_step", [3, 2], ids=["next step", "same step again"])
def test_a_kill_at_any_moment_of_saving_leaves_a_whole_checkpoint(tmp_path: Path, new_step: int) -> None:
    for number in range(1, 200):
        store = CheckpointStore(tmp_path / str(number), keep=1)
        store.save(1, some_groups(1.0), {}, score=9.0)
        store.save(2, some_groups(2.0), {})
        child = os.fork()
        if child == 0:
            die_at_call(number)
            store.save(new_step, some_groups(3.0), {})
            os._exit(0)
        _, status = os.waitpid(child, 0)
        newest = store.newest(refuse)
        assert newest.groups["weights"]["w"][0, 0] in ((2.0, 3.0) if status else (3.0,))
        assert store.best(refuse).step == 1
        for path in store.path.glob("step-*"):
            store.load(path)
        store.save(4, some_groups(4.0), {})
        assert sorted(path.name for path in store.path.iterdir()) == [
            "step-000000000001",
            "step-000000000004",
        ]
        if status == 0:
            assert number > 10, "the kill never came"
            return
    raise AssertionError("saving never came to its end")


def test_a_full_disk_is_explained_and_costs_nothing(small_disk: SmallDisk) -> None:
    with small_disk(300_000) as place:
        store = CheckpointStore(place / "checkpoints")
        store.save(1, some_groups(), {})
        large = {"weights": {"w": np.random.default_rng(0).normal(size=100_000)}}
        with pytest.raises(
            VeldtError, match=r"checkpoint of step 2 .*step-000000000002: the disk is full \(.* free"
        ):
            store.save(2, large, {})
        assert [path.name for path in store.path.iterdir()] == ["step-000000000001"]
        assert store.newest(refuse).step == 1


def test_a_users_file_in_a_checkpoint_is_not_removed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    annotated = store.save(1, some_groups(1.0), {})
    (annotated / "notes.txt").write_text("mine")
    replaced = store.save(2, some_groups(2.0), {})
    (replaced / "average.safetensors").write_text("mine")
    store.save(2, some_groups(3.0), {})
    assert (replaced / "average.safetensors").read_text() == "mine"
    assert not replaced.with_suffix(".old").exists()
    for step in (3, 4):
        store.save(step, some_groups(), {})
    assert (annotated / "notes.txt").exists() and (replaced / "average.safetensors").exists()
    assert (store.load(annotated).step, store.load(replaced).groups["weights"]["w"][0, 0]) == (1, 3.0)
    assert sorted(int(path.name[5:]) for path in tmp_path.iterdir()) == [1, 2, 4]


def test_no_checkpoint_is_written_to_a_link_or_removed_through_one(tmp_path: Path) -> None:
    elsewhere = CheckpointStore(tmp_path / "elsewhere").save(1, some_groups(), {})
    (tmp_path / "checkpoints").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="checkpoints is a symbolic link"):
        CheckpointStore(tmp_path / "checkpoints", keep=1).save(2, some_groups(), {})
    store = CheckpointStore(tmp_path / "others", keep=1)
    store.path.mkdir()
    links = [store.path / name for name in (elsewhere.name, ".partial-abcd1234")]
    for link in links:
        link.symlink_to(elsewhere)
    for step in (2, 3):
        store.save(step, some_groups(), {})
    assert list(elsewhere.parent.iterdir()) == [elsewhere] and store.load(elsewhere).step == 1
    assert all(link.is_symlink() for link in links)
