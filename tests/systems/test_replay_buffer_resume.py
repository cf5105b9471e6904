"""A resumed run has its replay buffer, or prints that it fills a new one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import veldt
from run_state import SMALL_REPLAYED, assert_same_run
from veldt.errors import CheckpointError, VeldtError
from veldt.runs.directory import RunDirectory
from veldt.runs.segments import SegmentStore
from veldt.tracking.metrics import read_metrics

SETTINGS: dict[str, Any] = SMALL_REPLAYED | {
    "env": "environments:scripted",
    "env_backend": "in-process",
    "checkpoint_every": 1,
    "keep_checkpoints": 4,
    "steps": 300,
    "learning_rate": 1e-3,  # schedules over the run's steps would change with them
}
EPSILON = {"epsilon_steps": 8_000}


def trained(path: Path, recipe: str = "rainbow", **changes: Any) -> Path:
    veldt.train(recipe, run_dir=path, quiet=True, **(SETTINGS | changes))
    return path


def texts(run: Path, kind: str) -> list[str]:
    return [event["text"] for event in RunDirectory.open(run).read_events() if event["kind"] == kind]


@pytest.mark.parametrize("recipe", ["dqn", "c51", "rainbow"])
@pytest.mark.parametrize(
    "changes",
    [{"resets": "mid-batch"}, {"resets": "wait"}, {"second_batch_size": 24, "normalise_observations": True}],
    ids=["mid-batch", "wait", "second"],
)
def test_from_every_checkpoint_that_is_kept(recipe: str, changes: dict[str, Any], tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", recipe, **changes)
    checkpoints = sorted((whole / "checkpoints").iterdir())[-SETTINGS["keep_checkpoints"] :]
    for checkpoint in checkpoints[:-1]:
        run = tmp_path / f"from-{checkpoint.name}"
        shutil.copytree(whole, run)
        for later in (run / "checkpoints").iterdir():
            if later.name > checkpoint.name:
                shutil.rmtree(later)
        veldt.resume(run, quiet=True)
        assert_same_run(whole, run)


def test_the_copy_on_disk_holds_the_rows_of_the_buffer_and_no_older_ones(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", steps=900, keep_checkpoints=1, checkpoint_every=50)
    rows = sorted((run / "replay" / "learner-0").iterdir())
    assert 2 <= len(rows) <= 6  # 120 transitions and their margins in segments of 50 steps, and not 900


def test_a_missing_or_damaged_replay_buffer_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    segment = max((run / "replay" / "learner-0").iterdir())
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"altered.*--checkpoint-replay none"):
        veldt.resume(run, steps=400, quiet=True)
    segment.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=r"replay buffer cannot be restored.*--checkpoint-replay none"):
        veldt.resume(run, steps=400, quiet=True)
    segment.unlink()
    with pytest.raises(CheckpointError, match=rf"{segment.name} is missing.*--checkpoint-replay none"):
        veldt.resume(run, steps=400, quiet=True)


def test_without_it_learning_pauses_until_the_buffer_is_as_full_as_at_the_start(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    shutil.rmtree(run / "replay")
    updates = read_metrics(run)[-1]["train/updates"]
    veldt.resume(run, steps=420, checkpoint_replay="none", quiet=True)
    (said,) = (text for text in texts(run, "resume") if "replay buffer" in text)
    assert "--checkpoint-replay none" in said and "40 steps" in said
    later = [row for row in read_metrics(run) if row["step"] > 300]
    paused = [row for row in later if row["step"] <= 300 + SETTINGS["learning_starts"]]
    assert paused and all(row["train/updates"] == updates for row in paused)
    # Then as many as the intensity says of the steps since, and no burst for those that were missed.
    last = later[-1]
    due = (
        (last["step"] - 300 - SETTINGS["learning_starts"])
        * SETTINGS["training_intensity"]
        / SETTINGS["batch_size"]
    )
    assert last["train/updates"] - updates == pytest.approx(due, abs=3)


def test_resume_without_a_stored_buffer_prints_a_note(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", checkpoint_replay="none")
    assert not (run / "replay").exists()
    veldt.resume(run, steps=400, quiet=True)
    assert [text for text in texts(run, "resume") if "replay buffer is empty" in text]


def test_target_network_schedules_and_priorities_are_in_the_checkpoint(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", **EPSILON)
    from run_state import newest

    groups = newest(run).groups
    assert groups["target"].keys() == {f"target/{name}" for name in groups["weights"]}
    assert any(
        (groups["target"][f"target/{name}"] != groups["weights"][name]).any() for name in groups["weights"]
    )
    assert (groups["replay-0"]["sampling/leaves"] > 0).sum() > 100
    before = read_metrics(run)[-1]
    veldt.resume(run, steps=360, quiet=True)
    after = [row for row in read_metrics(run) if row["step"] > before["step"]]
    assert all(row["rollout/epsilon"] < before["rollout/epsilon"] <= 1.0 for row in after)
    for row, previous in zip(after[1:], after, strict=False):
        progress = previous["step"] / 360
        assert row["replay/beta"] == pytest.approx(0.4 + 0.6 * progress)


def test_a_checkpoint_whose_rows_could_not_be_written_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, numbers = SegmentStore.write, iter(range(100))

    def full(store: SegmentStore, arrays: Any) -> dict[str, Any]:
        if next(numbers) == 2:
            raise VeldtError("the disk is full")
        return write(store, arrays)

    whole = trained(tmp_path / "whole", checkpoint_every=50)
    with monkeypatch.context() as patched:
        patched.setattr(SegmentStore, "write", full)
        with pytest.raises(VeldtError, match="the disk is full"):
            trained(tmp_path / "run", checkpoint_every=50)
    resumed = veldt.resume(tmp_path / "run", quiet=True)
    assert_same_run(whole, resumed.path)
