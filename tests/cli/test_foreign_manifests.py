"""A checkpoint's manifest names files: veldt reads, overwrites and removes none outside of the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_files import newest, oldest, tree, with_manifest

import veldt
from veldt.cli import main
from veldt.errors import CheckpointError, VeldtError
from veldt.runs.checkpoint_files import load_checkpoint
from veldt.systems.roles.sampler_learner_role import state_of_rank


@pytest.fixture
def run(dqn_run: Path) -> Path:
    return dqn_run


NAMES = (
    "../../user_files/rows-000001.safetensors",
    "/etc/rows-000001.safetensors",
    "shard-0/rows-000001.safetensors",
    "rows-000001.safetensors/",
    "rows-000001.safetensors\n",
    "rows-000001.safetensors\0",
    "..",
    "",
    "thesis.txt",
    7,
)


@pytest.mark.parametrize("mode", ["none", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_resume_refuses_segment_names_that_veldt_does_not_give(
    name: Any, mode: str, run: Path, user_files: Path, refused: Any
) -> None:
    with_manifest(
        newest(run), lambda manifest: manifest["meta"]["segments"]["learner-0"][0].update(file=name)
    )
    before = tree(run), tree(user_files)
    said = refused("resume", str(run), "--checkpoint-replay", mode, "--steps", "160", code=1)
    assert f"{newest(run)} was not written by veldt" in said and repr(name) in said
    # The lock is taken before a checkpoint is looked at.
    after = tree(run)
    assert after.pop("lock") and before[0].pop("lock")
    assert (after, tree(user_files)) == before


@pytest.mark.parametrize("name", ["../../user_files", "/etc", "..", "", "shard-0/.."])
def test_resume_refuses_replay_folders_outside_of_the_run(
    name: str, run: Path, user_files: Path, refused: Any
) -> None:
    with_manifest(
        newest(run), lambda manifest: manifest["meta"].update(segments={name: [{"file": "thesis.txt"}]})
    )
    before = tree(user_files)
    assert "was not written by veldt" in refused("resume", str(run), "--checkpoint-replay", "none", code=1)
    assert tree(user_files) == before


def test_pruning_ignores_segments_outside_of_the_run_in_an_older_manifest(
    run: Path, user_files: Path
) -> None:
    def point_elsewhere(manifest: dict[str, Any]) -> None:
        manifest["meta"]["segments"] = {
            "learner-0": [{"file": "../../user_files/rows-000001.safetensors"}],
            "../../user_files": [],
        }

    with_manifest(oldest(run), point_elsewhere)
    before = tree(user_files)
    main(["resume", str(run), "--checkpoint-replay", "none", "--steps", "160"])
    assert tree(user_files) == before


@pytest.mark.parametrize("name", ["../weights.safetensors", "/etc/weights.safetensors", "a/b.safetensors"])
@pytest.mark.parametrize("verb", ["evaluate", "resume"])
def test_files_outside_of_the_checkpoint_are_refused(name: str, verb: str, run: Path, refused: Any) -> None:
    for checkpoint in (run / "checkpoints").iterdir():
        with_manifest(
            checkpoint,
            lambda manifest: manifest.update(files={name: manifest["files"]["weights.safetensors"]}),
        )
    assert "names files that are not part of a checkpoint" in refused(verb, str(run), code=1)


def test_a_checkpoint_without_weights_is_refused(run: Path, refused: Any) -> None:
    for checkpoint in (run / "checkpoints").iterdir():
        with_manifest(checkpoint, lambda manifest: manifest["files"].pop("weights.safetensors"))
    assert "does not hold what this run's checkpoints hold" in refused("evaluate", str(run), code=1)
    # One sentence: it does not say that `veldt resume` continues.
    assert "does not hold what this run's checkpoints hold" in refused(
        "resume", str(run), "--steps", "192", code=1
    )


PARTS_OF_ROLES: dict[str, tuple[dict[str, Any], str]] = {
    "impala": ({"actors": 1}, "optimiser.safetensors"),
    "gorila": ({"actors": 1, "learners": 1, "shards": 1}, "server.safetensors"),
}


@pytest.mark.parametrize("recipe", PARTS_OF_ROLES)
def test_a_checkpoint_without_the_part_of_a_role_is_refused(
    recipe: str, tmp_path: Path, refused: Any
) -> None:
    settings, part = PARTS_OF_ROLES[recipe]
    run = tmp_path / "run"
    veldt.train(
        recipe, env="CartPole-v1", run_dir=run, quiet=True, steps=300, num_envs=4, hidden=(8,), **settings
    )
    with_manifest(newest(run), lambda manifest: manifest["files"].pop(part))
    with pytest.raises(VeldtError, match="does not hold what this run's checkpoints hold") as error:
        veldt.resume(run, steps=600, quiet=True)
    assert "Traceback" not in str(error.value)


def test_a_checkpoint_without_the_state_of_a_rank_is_refused(run: Path) -> None:
    checkpoint = load_checkpoint(newest(run))
    plan: Any = SimpleNamespace(rank=1, group="learner-1")
    with pytest.raises(CheckpointError, match="does not hold what this run's checkpoints hold"):
        state_of_rank(checkpoint, plan)


def test_a_step_that_is_a_path_is_refused(run: Path, user_files: Path, refused: Any) -> None:
    """The step is a part of the video's name."""
    pytest.importorskip("imageio_ffmpeg")
    (user_files / "film-seed-0.mp4").write_text("the user's own")
    (run / "videos" / "step-x").mkdir(parents=True)
    for checkpoint in (run / "checkpoints").iterdir():
        with_manifest(checkpoint, lambda manifest: manifest.update(step="x/../../../user_files/film"))
    before = tree(user_files)
    assert "its step, score, meta or files are not of the types" in refused("watch", str(run), code=1)
    assert tree(user_files) == before


@pytest.mark.parametrize("segments", [7, {"learner-0": [7]}, {"learner-0": 7}, {"learner-0": [{}]}])
def test_segments_of_other_types_are_refused_or_need_no_file(segments: Any, run: Path, refused: Any) -> None:
    def put(manifest: dict[str, Any]) -> None:
        manifest["meta"]["segments"] = segments

    with_manifest(oldest(run), put)
    veldt.resume(run, steps=160, quiet=True)
    with_manifest(newest(run), put)
    said = refused("resume", str(run), "--steps", "200", code=1)
    assert f"{newest(run)} was not written by veldt" in said
