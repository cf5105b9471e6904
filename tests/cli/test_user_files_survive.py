"""No verb deletes or overwrites a file that its run did not write: in the run, beside it, or through a link."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from run_files import DQN_SETTINGS, newest, oldest, tree

import veldt
from veldt.cli import main

IN_PLACE = ("events.jsonl", "lock", "metrics.jsonl", "episodes.jsonl", "actions.bin")
REPLACED = ("config.json", "summary.json")
DIRECTORIES = ("checkpoints", "replay", "tensorboard")


@pytest.fixture
def run(dqn_run: Path) -> Path:
    return dqn_run


def replace_by_link(path: Path, target: Path) -> None:
    """Moves what is at `path` to `target`, and leaves a link to it at `path`."""
    path.rename(target)
    path.symlink_to(os.path.relpath(target, path.parent))


# What a link replaces, and its path in a run.
WRITTEN: dict[str, Callable[[Path], Path]] = {
    **{name: lambda run, name=name: run / name for name in (*IN_PLACE, *REPLACED, *DIRECTORIES)},  # type: ignore[misc]
    "a checkpoint": oldest,
    "a file of a checkpoint": lambda run: oldest(run) / "weights.safetensors",
    "a segment": lambda run: min((run / "replay" / "learner-0").iterdir()),
}


@pytest.mark.parametrize("steps", ["120", "160"])
@pytest.mark.parametrize("what", WRITTEN)
def test_resume_refuses_a_run_that_contains_a_link(
    what: str, steps: str, run: Path, user_files: Path, refused: Any
) -> None:
    link = WRITTEN[what](run)
    replace_by_link(link, user_files / link.name)
    before = tree(run), tree(user_files)
    said = refused("resume", str(run), "--checkpoint-replay", "none", "--steps", steps)
    assert said.startswith(f"{link} is a symbolic link, ") and said.endswith("or remove the link")
    assert (tree(run), tree(user_files)) == before


def test_resume_refuses_a_link_as_replay_folder(run: Path, user_files: Path, refused: Any) -> None:
    shutil.rmtree(run / "replay")
    (run / "replay").symlink_to("../user_files")
    before = tree(user_files)
    assert "replay is a symbolic link" in refused("resume", str(run), "--checkpoint-replay", "none")
    assert tree(user_files) == before


@pytest.mark.parametrize("directory", ["replay/shard-0", "replay/learner-1", "checkpoints/.partial-abcd1234"])
def test_resume_refuses_a_link_as_folder_of_a_shard_or_a_checkpoint(
    directory: str, run: Path, user_files: Path, refused: Any
) -> None:
    (run / directory).symlink_to(user_files)
    before = tree(user_files)
    assert f"{directory} is a symbolic link" in refused("resume", str(run), "--steps", "160")
    assert tree(user_files) == before


@pytest.mark.parametrize("name", IN_PLACE)
def test_resume_refuses_hard_links_to_files_that_it_would_append_to(
    name: str, run: Path, user_files: Path, refused: Any
) -> None:
    os.link(run / name, user_files / name)
    before = tree(run), tree(user_files)
    assert f"{run / name} is a hard link" in refused("resume", str(run), "--steps", "160")
    assert (tree(run), tree(user_files)) == before


def test_hard_links_to_files_that_are_replaced_or_removed_keep_their_content(
    run: Path, user_files: Path
) -> None:
    for path in (*(run / name for name in REPLACED), *(run / "replay" / "learner-0").iterdir()):
        os.link(path, user_files / f"{path.name}-kept")
    before = tree(user_files)
    main(["resume", str(run), "--steps", "160", "--keep-checkpoints", "1"])
    assert tree(user_files) == before
    assert json.loads((run / "summary.json").read_text())["steps"] >= 160


@pytest.mark.parametrize("name", (*IN_PLACE, "summary.json"))
def test_resume_refuses_a_directory_with_the_name_of_a_file(name: str, run: Path, refused: Any) -> None:
    (run / name).unlink()
    (run / name).mkdir()
    (run / name / "thesis.txt").write_text("mine")
    before = tree(run)
    assert f"{run / name} is a directory, and veldt writes a file" in refused(
        "resume", str(run), "--steps", "160"
    )
    assert tree(run) == before


@pytest.mark.parametrize("name", DIRECTORIES)
def test_resume_refuses_a_file_with_the_name_of_a_directory(name: str, run: Path, refused: Any) -> None:
    shutil.rmtree(run / name)
    (run / name).write_text("mine")
    before = tree(run)
    assert f"{run / name} is a file, and veldt writes a directory" in refused(
        "resume", str(run), "--steps", "160"
    )
    assert tree(run) == before


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("resume --steps 160", "config.json"),
        ("report", "report.html"),
        ("record-starts --starts 1", "starts.safetensors"),
    ],
)
def test_a_temporary_file_is_not_written_through_a_link(
    arguments: str, name: str, run: Path, user_files: Path, refused: Any
) -> None:
    before, (verb, *rest) = tree(user_files), arguments.split()
    (run / f".{name}.{os.getpid()}.partial").symlink_to(user_files / "thesis.txt")
    assert "partial is a symbolic link" in refused(verb, str(run), *rest)
    assert tree(user_files) == before


def write_user_files(run: Path) -> dict[Path, bytes]:
    """Files of the user's own everywhere in the run, under names that resemble veldt's."""
    (run / "replay" / "old").mkdir()
    (run / "checkpoints" / ".partial-notes").mkdir()
    (run / "checkpoints" / ".partial-abcd1234").mkdir()
    own = [
        run / "notes.txt",
        run / "events.jsonl.bak",
        run / "replay" / "notes.txt",
        run / "replay" / "learner-0" / "rows-mine.safetensors",
        run / "replay" / "learner-0" / "rows-000001.safetensors.bak",
        run / "replay" / "old" / "rows-000001.safetensors",
        run / "checkpoints" / "notes.txt",
        run / "checkpoints" / "step-of-my-own",
        run / "checkpoints" / ".partial-notes" / "weights.safetensors",
        run / "checkpoints" / ".partial-abcd1234" / "thesis.txt",
        oldest(run) / "average.safetensors",
        newest(run) / "notes.txt",
        run / "tensorboard" / "notes.txt",
    ]
    for path in own:
        path.write_text(f"mine: {path}")
    return {path: path.read_bytes() for path in own}


def test_pruning_keeps_files_of_the_users(run: Path) -> None:
    segments, (annotated, pruned, _) = (
        list((run / "replay" / "learner-0").iterdir()),
        sorted((run / "checkpoints").iterdir()),
    )
    own = write_user_files(run)
    (run / "checkpoints" / ".partial-hgfe4321").mkdir()  # what a killed process left, and its segment
    (run / "checkpoints" / ".partial-hgfe4321" / "weights.safetensors").write_text("half")
    (run / "replay" / "learner-0" / "rows-000099.safetensors.partial").write_text("half")
    main(["resume", str(run), "--steps", "160", "--keep-checkpoints", "1", "--checkpoint-replay", "none"])
    assert {path: path.read_bytes() for path in own} == own
    assert annotated.exists() and veldt.load(run).step >= 160
    # And everything else goes as it always did.
    assert not (run / "checkpoints" / ".partial-hgfe4321").exists()
    assert not (run / "replay" / "learner-0" / "rows-000099.safetensors.partial").exists()
    assert not pruned.exists() and not any(path.exists() for path in segments)


@pytest.mark.parametrize("verb", ["evaluate", "report", "record-starts"])
def test_other_verbs_change_no_existing_file(verb: str, run: Path) -> None:
    write_user_files(run)
    before = tree(run)
    main(
        [verb, str(run), *{"evaluate": ["--episodes", "1"], "record-starts": ["--starts", "1"]}.get(verb, [])]
    )
    after = tree(run)
    new = {"report": "report.html", "record-starts": "starts.safetensors"}.get(verb)
    assert after.pop(new, None) is not None or new is None
    assert after == before


def test_verbs_without_a_run_write_nothing(
    user_files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(user_files)
    before = tree(user_files)
    for line in ("doctor", "recipes", "recipes dqn", "bench training --env CartPole-v1 --seconds 0.01"):
        main(line.split())
    assert tree(user_files) == before


def test_a_run_directory_may_be_named_by_a_link(run: Path) -> None:
    latest = run.parent / "latest"
    latest.symlink_to("run")
    main(["resume", str(latest), "--steps", "160", "--keep-checkpoints", "1"])
    main(["report", str(latest)])
    main(["record-starts", str(latest), "--starts", "1"])
    assert latest.is_symlink() and len(list((run / "checkpoints").iterdir())) == 1
    assert (run / "report.html").exists() and (run / "starts.safetensors").exists()


# What is at the path of an output, and how a test makes it from a file of the user's.
OUT: dict[str, Callable[[Path, Path], object]] = {
    "a file": lambda out, thesis: shutil.copy(thesis, out),
    "a link": lambda out, thesis: out.symlink_to(thesis),
    "a link to nothing": lambda out, thesis: out.symlink_to(thesis.with_name("absent")),
    "a hard link": lambda out, thesis: os.link(thesis, out),
    "a directory": lambda out, thesis: shutil.copytree(thesis.parent, out),
}


@pytest.mark.parametrize("how", OUT)
@pytest.mark.parametrize(
    ("verb", "name", "given"),
    [
        ("report", "report.html", False),
        ("report", "mine.html", True),
        ("watch", "mine.mp4", True),
        ("record-starts", "starts.safetensors", False),
        ("record-starts", "mine.safetensors", True),
    ],
)
def test_an_existing_output_file_is_not_overwritten(
    verb: str, name: str, given: bool, how: str, run: Path, user_files: Path, refused: Any
) -> None:
    out = run / name
    OUT[how](out, user_files / "thesis.txt")
    before = tree(run.parent)
    said = refused(verb, str(run), *(["--out", str(out)] if given else []))
    assert str(out) in said
    assert tree(run.parent) == before


def test_a_report_replaces_an_older_report(run: Path) -> None:
    again = Path(shutil.copytree(run, run.parent / "again"))
    out = run.parent / "both.html"
    out.touch()  # as `mktemp` does
    main(["report", str(run)])
    main(["report", str(run), str(again)])
    for _ in range(2):
        main(["report", str(run), str(again), "--out", str(out)])
    assert "again" in out.read_text() and "again" in (run / "report.html").read_text()
    assert not (again / "report.html").exists()


def test_a_video_is_not_written_through_a_link(
    run: Path, user_files: Path, refused: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("imageio_ffmpeg")
    (run / "videos").symlink_to(user_files)
    before = tree(user_files)
    assert "videos is a symbolic link" in refused("watch", str(run), "--episode", "0")
    (run / "videos").unlink()
    (run / "videos").mkdir()
    video = run / "videos" / "episode-0.mp4"
    for link in (video, run / "videos" / f".episode-0.{os.getpid()}.partial.mp4"):
        link.symlink_to(user_files / "thesis.txt")
        assert f"{link} is a symbolic link" in refused("watch", str(run), "--episode", "0")
        assert link.is_symlink()
        link.unlink()
    for _ in range(2):
        main(["watch", str(run), "--episode", "0"])
    assert tree(user_files) == before and [path.name for path in (run / "videos").iterdir()] == [video.name]


@pytest.mark.parametrize("name", ["a:b", "file:run", "-run"])
def test_a_run_name_with_a_meaning_for_ffmpeg_is_taken_as_a_file_name(
    name: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.chdir(run.parent)
    run.rename(run.with_name(name))
    main(["watch", f"./{name}", "--episode", "0"])
    assert (run.with_name(name) / "videos" / "episode-0.mp4").is_file()


def test_a_failed_start_removes_only_files_that_it_wrote(tmp_path: Path, user_files: Path) -> None:
    path, before = tmp_path / "new", tree(user_files)

    class Failing(gymnasium.Wrapper[Any, Any, Any, Any]):
        def reset(self, **settings: Any) -> Any:
            if (path / "lock").exists():
                (path / "notes.txt").write_text("mine")
                (path / "replay").symlink_to(user_files)
                (path / "videos").mkdir()
                raise RuntimeError("no")
            return super().reset(**settings)

    def make() -> gymnasium.Env[Any, Any]:
        return Failing(gymnasium.make("CartPole-v1"))

    with pytest.raises(veldt.EnvError):
        veldt.train("dqn", run_dir=path, **(DQN_SETTINGS | {"env": make}))
    assert sorted(inner.name for inner in path.iterdir()) == ["notes.txt", "replay", "videos"]
    assert (path / "notes.txt").read_text() == "mine" and tree(user_files) == before
