"""Checkpoints are written while training goes on: nothing in them is newer than they are, and no failure is lost."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veldt
from run_state import SMALL_REPLAYED, assert_same_run
from veldt.errors import CheckpointError, VeldtError
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.checkpoint_files import read_manifest
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.segments import SegmentStore
from veldt.systems.roles.sampler_learner import SamplerLearner

SETTINGS: dict[str, Any] = SMALL_REPLAYED | {
    "env": "environments:scripted",
    "env_backend": "in-process",
    "checkpoint_every": 20,
    "keep_checkpoints": 4,
    "steps": 400,
}


def trained(path: Path, **changes: Any) -> Path:
    veldt.train("dqn", run_dir=path, quiet=True, **(SETTINGS | changes))
    return path


def segments(checkpoint: Path) -> list[dict[str, Any]]:
    return read_manifest(checkpoint)["meta"]["segments"].get("learner-0", [])


def test_rows_do_not_change_while_they_are_written_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints become due while one is written, and training goes round the replay buffer in six of them."""
    write, moved = SegmentStore.write, []

    def slow(self: SegmentStore, arrays: Mapping[str, Any]) -> dict[str, Any]:
        before = {name: np.concatenate(pieces) for name, pieces in arrays.items()}
        time.sleep(0.15)
        moved.append(
            [n for n, pieces in arrays.items() if not np.array_equal(np.concatenate(pieces), before[n])]
        )
        return write(self, arrays)

    whole = trained(tmp_path / "whole")
    monkeypatch.setattr(SegmentStore, "write", slow)
    run = trained(tmp_path / "run")
    assert len(moved) > 10 and not any(moved)
    assert_same_run(whole, run)


def test_a_checkpoint_that_cannot_be_written_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, calls = CheckpointStore.save, []

    def full(self: CheckpointStore, step: int, *arguments: Any, **named: Any) -> Path:
        calls.append(step)
        if len(calls) == 4:
            raise VeldtError("the disk is full")
        return save(self, step, *arguments, **named)

    monkeypatch.setattr(CheckpointStore, "save", full)
    with pytest.raises(VeldtError, match="the disk is full"):
        trained(tmp_path / "run")
    assert len(calls) == 4
    monkeypatch.undo()
    assert veldt.resume(tmp_path / "run", quiet=True).summary["steps"] >= 400


def test_a_refused_resume_changes_nothing(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    max((run / "checkpoints").iterdir()).rename(tmp_path / "put aside")
    for file in (run / "replay" / "learner-0").iterdir():
        file.unlink()
    records = ("episodes.jsonl", "actions.bin", "metrics.jsonl")
    before = {name: (run / name).read_bytes() for name in records}
    with pytest.raises(CheckpointError, match="--checkpoint-replay none"):
        veldt.resume(run, quiet=True)
    assert {name: (run / name).read_bytes() for name in records} == before


def test_segments_that_an_older_checkpoint_needs_are_not_overwritten(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    veldt.resume(run, steps=440, checkpoint_replay="none", checkpoint_every=1000, quiet=True)
    veldt.resume(run, steps=480, checkpoint_replay="full", checkpoint_every=1000, quiet=True)
    kept = [segment for path in (run / "checkpoints").iterdir() for segment in segments(path)]
    assert len({segment["sha256"] for segment in kept}) > 3
    for segment in kept:
        content = (run / "replay" / "learner-0" / segment["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == segment["sha256"]


def test_an_error_of_the_background_writer_is_raised_once_by_check() -> None:
    writer = BackgroundWriter()

    def fail() -> None:
        raise VeldtError("no")

    writer.start(fail)
    with pytest.raises(VeldtError, match="no"):
        writer.finish()
    writer.finish()
    writer.start(lambda: None)
    writer.finish()
    writer.check()


def test_rows_that_are_being_written_when_a_run_fails_become_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure is not an env's: no further checkpoint is requested, and the one being written is finished."""
    write, run_phase, steps = SegmentStore.write, SamplerLearner.run_phase, []

    def slow(self: SegmentStore, arrays: Mapping[str, Any]) -> dict[str, Any]:
        time.sleep(0.5)
        return write(self, arrays)

    def fails(self: SamplerLearner, done: int, *arguments: Any) -> Any:
        steps.append(done)
        if done > 50:
            raise RuntimeError("a mistake in the user's network")
        return run_phase(self, done, *arguments)

    monkeypatch.setattr(SegmentStore, "write", slow)
    monkeypatch.setattr(SamplerLearner, "run_phase", fails)
    with pytest.raises(RuntimeError, match="a mistake"):
        trained(tmp_path / "run", checkpoint_every=50)
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    assert int(newest.name.removeprefix("step-")) == steps[-1] and segments(newest)
