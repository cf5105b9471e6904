"""No verb deletes or overwrites what its run did not write: in it, beside it, through a link or by a manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import veldt
from veldt.cli import main
from veldt.runs.directory import RunDirectory

SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "quiet": True,
    "steps": 120,
    "num_envs": 4,
    "batch_size": 16,
    "horizon": 4,
    "learning_starts": 40,
    "buffer_size": 200,
    "hidden": (8,),
    "threads": 1,
    "env_backend": "in-process",
    "checkpoint_every": 40,
    "evaluate_every": 0,
}
IN_PLACE = ("events.jsonl", "lock", "metrics.jsonl", "episodes.jsonl", "actions.bin")
REPLACED = ("config.json", "summary.json")
DIRECTORIES = ("checkpoints", "replay", "tensorboard")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of DQN with three checkpoints and the segments of their replay buffer, not to be changed."""
    path = tmp_path_factory.mktemp("runs") / "trained"
    veldt.train("dqn", run_dir=path, **SETTINGS)
    assert (
        len(list((path / "checkpoints").iterdir()))
        == 3
        <= len(list((path / "replay" / "learner-0").iterdir()))
    )
    RunDirectory(path).write_event(0, "note", "it began")
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it to do anything to."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A directory of somebody's, beside the run, with names that veldt would give."""
    path = tmp_path / "precious"
    (path / "step-000000000001").mkdir(parents=True)
    for name in ("thesis.txt", "rows-000001.safetensors", "step-000000000001/manifest.json"):
        (path / name).write_text(f"years of work: {name}\n")
    return path


def tree(path: Path) -> dict[str, Any]:
    """Everything below `path`: the content of files, where links lead to, and directories."""
    found: dict[str, Any] = {}
    for inner in sorted(path.rglob("*")):
        name = str(inner.relative_to(path))
        if inner.is_symlink():
            found[name] = ("link", os.readlink(inner))
        else:
            found[name] = inner.read_bytes() if inner.is_file() else "directory"
    return found


def newest(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


def oldest(run: Path) -> Path:
    return min((run / "checkpoints").glob("step-*"))


def replaced_by_link(path: Path, target: Path) -> None:
    """What was at `path` is at `target`, and a link at `path` leads to it."""
    path.rename(target)
    path.symlink_to(os.path.relpath(target, path.parent))


# What is a link: a name in the run -> what the verb that would write through it is.
WRITTEN: dict[str, Callable[[Path], Path]] = {
    **{name: lambda run, name=name: run / name for name in (*IN_PLACE, *REPLACED, *DIRECTORIES)},  # type: ignore[misc]
    "a checkpoint": oldest,
    "a file of a checkpoint": lambda run: oldest(run) / "weights.safetensors",
    "a segment": lambda run: min((run / "replay" / "learner-0").iterdir()),
}


@pytest.mark.parametrize("steps", ["120", "160"])
@pytest.mark.parametrize("what", WRITTEN)
def test_a_run_with_a_link_in_it_is_not_resumed(
    what: str, steps: str, run: Path, precious: Path, refused: Any
) -> None:
    link = WRITTEN[what](run)
    replaced_by_link(link, precious / link.name)
    before = tree(run), tree(precious)
    said = refused("resume", str(run), "--checkpoint-replay", "none", "--steps", steps)
    assert said.startswith(f"{link} is a symbolic link, ") and said.endswith("or remove the link")
    assert (tree(run), tree(precious)) == before


def test_a_replay_folder_in_the_place_of_which_is_a_link_to_anything(
    run: Path, precious: Path, refused: Any
) -> None:
    shutil.rmtree(run / "replay")
    (run / "replay").symlink_to("../precious")
    before = tree(precious)
    assert "replay is a symbolic link" in refused("resume", str(run), "--checkpoint-replay", "none")
    assert tree(precious) == before


@pytest.mark.parametrize("directory", ["replay/shard-0", "replay/learner-1", "checkpoints/.partial-abcd1234"])
def test_a_part_that_is_a_link(directory: str, run: Path, precious: Path, refused: Any) -> None:
    (run / directory).symlink_to(precious)
    before = tree(precious)
    assert f"{directory} is a symbolic link" in refused("resume", str(run), "--steps", "160")
    assert tree(precious) == before


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_file_that_has_another_name_is_not_changed_in_place(
    name: str, run: Path, precious: Path, refused: Any
) -> None:
    os.link(run / name, precious / name)
    before = tree(run), tree(precious)
    assert f"{run / name} is a hard link" in refused("resume", str(run), "--steps", "160")
    assert (tree(run), tree(precious)) == before


def test_what_is_replaced_or_removed_may_have_another_name(run: Path, precious: Path) -> None:
    for path in (*(run / name for name in REPLACED), *(run / "replay" / "learner-0").iterdir()):
        os.link(path, precious / f"{path.name}-kept")
    before = tree(precious)
    main(["resume", str(run), "--steps", "160", "--keep-checkpoints", "1"])
    assert tree(precious) == before
    assert json.loads((run / "summary.json").read_text())["steps"] >= 160


@pytest.mark.parametrize("name", (*IN_PLACE, "summary.json"))
def test_a_directory_in_the_place_of_a_file(name: str, run: Path, refused: Any) -> None:
    (run / name).unlink()
    (run / name).mkdir()
    (run / name / "thesis.txt").write_text("mine")
    before = tree(run)
    assert f"{run / name} is a directory, and veldt writes a file" in refused(
        "resume", str(run), "--steps", "160"
    )
    assert tree(run) == before


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_file_in_the_place_of_a_directory(name: str, run: Path, refused: Any) -> None:
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
    arguments: str, name: str, run: Path, precious: Path, refused: Any
) -> None:
    before, (verb, *rest) = tree(precious), arguments.split()
    (run / f".{name}.{os.getpid()}.partial").symlink_to(precious / "thesis.txt")
    assert "partial is a symbolic link" in refused(verb, str(run), *rest)
    assert tree(precious) == before


def put_own_files(run: Path) -> dict[Path, bytes]:
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


def test_own_files_in_a_run_outlive_pruning(run: Path) -> None:
    segments, (annotated, pruned, _) = (
        list((run / "replay" / "learner-0").iterdir()),
        sorted((run / "checkpoints").iterdir()),
    )
    own = put_own_files(run)
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
def test_other_verbs_leave_everything_as_it_was(verb: str, run: Path) -> None:
    put_own_files(run)
    before = tree(run)
    main(
        [verb, str(run), *{"evaluate": ["--episodes", "1"], "record-starts": ["--starts", "1"]}.get(verb, [])]
    )
    after = tree(run)
    new = {"report": "report.html", "record-starts": "starts.safetensors"}.get(verb)
    assert after.pop(new, None) is not None or new is None
    assert after == before


def test_verbs_without_a_run_write_nothing(
    precious: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(precious)
    before = tree(precious)
    for line in ("doctor", "recipes", "recipes dqn", "bench training --env CartPole-v1 --seconds 0.01"):
        main(line.split())
    assert tree(precious) == before


def test_a_run_that_is_reached_through_a_link(run: Path) -> None:
    latest = run.parent / "latest"
    latest.symlink_to("run")
    main(["resume", str(latest), "--steps", "160", "--keep-checkpoints", "1"])
    main(["report", str(latest)])
    main(["record-starts", str(latest), "--starts", "1"])
    assert latest.is_symlink() and len(list((run / "checkpoints").iterdir())) == 1
    assert (run / "report.html").exists() and (run / "starts.safetensors").exists()


def with_manifest(checkpoint: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes a manifest, and gives it the checksum that it has then."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    del manifest["sha256"]
    change(manifest)
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (checkpoint / "manifest.json").write_text(json.dumps({**manifest, "sha256": digest}))


NAMES = (
    "../../precious/rows-000001.safetensors",
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
def test_a_manifest_that_names_other_segments(
    name: Any, mode: str, run: Path, precious: Path, refused: Any
) -> None:
    with_manifest(
        newest(run), lambda manifest: manifest["meta"]["segments"]["learner-0"][0].update(file=name)
    )
    before = tree(run), tree(precious)
    said = refused("resume", str(run), "--checkpoint-replay", mode, "--steps", "160", code=1)
    assert f"{newest(run)} was not written by veldt" in said and repr(name) in said
    # The lock is taken before a checkpoint is looked at.
    after = tree(run)
    assert after.pop("lock") and before[0].pop("lock")
    assert (after, tree(precious)) == before


@pytest.mark.parametrize("name", ["../../precious", "/etc", "..", "", "shard-0/.."])
def test_a_manifest_that_names_other_replay_folders(
    name: str, run: Path, precious: Path, refused: Any
) -> None:
    with_manifest(
        newest(run), lambda manifest: manifest["meta"].update(segments={name: [{"file": "thesis.txt"}]})
    )
    before = tree(precious)
    assert "was not written by veldt" in refused("resume", str(run), "--checkpoint-replay", "none", code=1)
    assert tree(precious) == before


def test_an_older_manifest_is_no_way_out_of_the_run_either(run: Path, precious: Path) -> None:
    def point_elsewhere(manifest: dict[str, Any]) -> None:
        manifest["meta"]["segments"] = {
            "learner-0": [{"file": "../../precious/rows-000001.safetensors"}],
            "../../precious": [],
        }

    with_manifest(oldest(run), point_elsewhere)
    before = tree(precious)
    main(["resume", str(run), "--checkpoint-replay", "none", "--steps", "160"])
    assert tree(precious) == before


@pytest.mark.parametrize("name", ["../weights.safetensors", "/etc/weights.safetensors", "a/b.safetensors"])
@pytest.mark.parametrize("verb", ["evaluate", "resume"])
def test_a_manifest_that_names_files_elsewhere(name: str, verb: str, run: Path, refused: Any) -> None:
    for checkpoint in (run / "checkpoints").iterdir():
        with_manifest(
            checkpoint,
            lambda manifest: manifest.update(files={name: manifest["files"]["weights.safetensors"]}),
        )
    assert "names files that are no part of a checkpoint" in refused(verb, str(run), code=1)


def test_a_step_in_a_manifest_is_no_way_out_of_the_run(run: Path, precious: Path, refused: Any) -> None:
    """The step is a part of the video's name."""
    pytest.importorskip("imageio_ffmpeg")
    (precious / "film-seed-0.mp4").write_text("years of work")
    (run / "videos" / "step-x").mkdir(parents=True)
    for checkpoint in (run / "checkpoints").iterdir():
        with_manifest(checkpoint, lambda manifest: manifest.update(step="x/../../../precious/film"))
    before = tree(precious)
    assert "its step, score, meta or files are not of the types" in refused("watch", str(run), code=1)
    assert tree(precious) == before


# A path that is somebody's -> how it came to be, given a precious file.
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
def test_what_is_there_is_not_written_over(
    verb: str, name: str, given: bool, how: str, run: Path, precious: Path, refused: Any
) -> None:
    out = run / name
    OUT[how](out, precious / "thesis.txt")
    before = tree(run.parent)
    said = refused(verb, str(run), *(["--out", str(out)] if given else []))
    assert str(out) in said
    assert tree(run.parent) == before


def test_a_report_is_made_anew(run: Path) -> None:
    again = Path(shutil.copytree(run, run.parent / "again"))
    out = run.parent / "both.html"
    out.touch()  # as `mktemp` does
    main(["report", str(run)])
    main(["report", str(run), str(again)])
    for _ in range(2):
        main(["report", str(run), str(again), "--out", str(out)])
    assert "again" in out.read_text() and "again" in (run / "report.html").read_text()
    assert not (again / "report.html").exists()


def test_videos(run: Path, precious: Path, refused: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("imageio_ffmpeg")
    (run / "videos").symlink_to(precious)
    before = tree(precious)
    assert "videos is a symbolic link" in refused("watch", str(run), "--episode", "0")
    (run / "videos").unlink()
    (run / "videos").mkdir()
    video = run / "videos" / "episode-0.mp4"
    for link in (video, run / "videos" / f".episode-0.{os.getpid()}.partial.mp4"):
        link.symlink_to(precious / "thesis.txt")
        assert f"{link} is a symbolic link" in refused("watch", str(run), "--episode", "0")
        assert link.is_symlink()
        link.unlink()
    for _ in range(2):
        main(["watch", str(run), "--episode", "0"])
    assert tree(precious) == before and [path.name for path in (run / "videos").iterdir()] == [video.name]


@pytest.mark.parametrize("name", ["a:b", "file:run", "-run"])
def test_a_name_that_means_something_to_the_encoder(
    name: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.chdir(run.parent)
    run.rename(run.with_name(name))
    main(["watch", f"./{name}", "--episode", "0"])
    assert (run.with_name(name) / "videos" / "episode-0.mp4").is_file()


def test_a_start_that_fails_removes_only_what_it_wrote(tmp_path: Path, precious: Path) -> None:
    path, before = tmp_path / "new", tree(precious)

    class Failing(gymnasium.Wrapper[Any, Any, Any, Any]):
        def reset(self, **settings: Any) -> Any:
            if (path / "lock").exists():
                (path / "notes.txt").write_text("mine")
                (path / "replay").symlink_to(precious)
                (path / "videos").mkdir()
                raise RuntimeError("no")
            return super().reset(**settings)

    def make() -> gymnasium.Env[Any, Any]:
        return Failing(gymnasium.make("CartPole-v1"))

    with pytest.raises(veldt.EnvError):
        veldt.train("dqn", run_dir=path, **(SETTINGS | {"env": make}))
    assert sorted(inner.name for inner in path.iterdir()) == ["notes.txt", "replay", "videos"]
    assert (path / "notes.txt").read_text() == "mine" and tree(precious) == before
