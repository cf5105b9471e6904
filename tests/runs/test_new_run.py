"""A new run's directory is removed if the run fails before its first checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import veldt
from run_state import SMALL
from veldt.errors import UsageError
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.new_run import new_run, run_name
from veldt.runs.segments import SegmentStore
from veldt.tracking.loggers.tensorboard_logger import TensorBoardLogger


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_before_the_first_checkpoint(failure: type[BaseException], in_tmp: Path) -> None:
    for run_dir in (None, in_tmp / "mine"):
        with pytest.raises(failure), new_run(run_dir, "ppo") as run:
            run.write_config({}, {}, [], {})
            raise failure
        assert not run.path.exists()
    with new_run("mine", "ppo") as run:
        assert run.path == Path("mine")
    assert run.path.exists()


def test_a_failure_after_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError), new_run(tmp_path / "run", "") as run:
        CheckpointStore(run.checkpoints).save(0, {"weights": {"w": np.zeros(2)}}, {})
        raise ValueError
    assert CheckpointStore(run.checkpoints).has_any()


@pytest.mark.parametrize("has_own", [True, False], ids=["with own files", "without"])
def test_a_failure_removes_what_the_run_wrote_and_nothing_else(has_own: bool, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    segment = SegmentStore(elsewhere).write({"a": np.zeros(2)})["file"]
    with pytest.raises(ValueError), new_run(tmp_path / "run", "") as run:
        run.write_config({}, {}, [], {})
        with run.lock():
            run.write_event(0, "note", "it began")
        TensorBoardLogger(run.path).close()
        for part in (run.replay / "learner-0", run.replay / "shard-0"):
            SegmentStore(part).write({"a": np.zeros(2)})
        partial = run.checkpoints / ".partial-abcd1234"
        partial.mkdir(parents=True)
        (partial / "weights.safetensors").touch()
        (run.path / f".learners-{0:032x}").touch()
        if has_own:
            (run.replay / "learner-1").symlink_to(elsewhere)
            (partial / "notes.txt").touch()
        raise ValueError
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir())
    notes = ["run/checkpoints/.partial-abcd1234/notes.txt"] if has_own else []
    assert left == [f"elsewhere/{segment}", *notes]
    assert (tmp_path / "run").exists() == (run.replay / "learner-1").is_symlink() == has_own


def test_a_directory_that_was_there_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"exists already: name a new directory \(it contains no run\)"):
        new_run(tmp_path, "").__enter__()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"exists already: .* or remove it: its run has no checkpoint"):
        new_run(tmp_path, "").__enter__()
    CheckpointStore(tmp_path / "checkpoints").save(0, {"weights": {"w": np.zeros(2)}}, {})
    with pytest.raises(UsageError, match=r"exists already: .* or `veldt resume"):
        new_run(tmp_path, "").__enter__()
    assert (tmp_path / "note.txt").exists()


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("CartPole-v1", "ppo-CartPole-v1-3"),
        ("ALE/Pong-v5", "ppo-ALE-Pong-v5-3"),
        ("mine:make", "ppo-make-3"),
        ("__main__:<lambda>", "ppo-lambda-3"),
        ("__main__:outer.<locals>.<lambda>", "ppo-lambda-3"),
        ("mine:outer.<locals>.make", "ppo-make-3"),
        ("mine:<Env>", "ppo-Env-3"),
    ],
)
def test_names_of_run_directories(env: str, name: str) -> None:
    assert run_name("ppo", env, 3) == name


def test_another_algorithm_is_in_the_name() -> None:
    assert run_name("ppo", "CartPole-v1", 3, "dqn") == "ppo-dqn-CartPole-v1-3"


def test_a_run_of_another_algorithm_has_it_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"env": "CartPole-v1", "steps": 64, "env_backend": "in-process", "quiet": True, "num_envs": 4}
    assert veldt.train("a2c", algorithm="ppo", batch_size=64, **settings).path.name == "a2c-ppo-CartPole-v1-1"
    assert veldt.train("a2c", algorithm="a2c", **settings).path.name == "a2c-CartPole-v1-1"


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("disk/that/is/not/mounted")
    with (
        pytest.raises(UsageError, match="link is a link to disk/that/is/not/mounted, which does not exist"),
        new_run(link, ""),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_name_that_is_too_long_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(
            UsageError, match=r"x cannot be looked up \(File name too long\): name another directory"
        ),
        new_run(tmp_path / ("x" * 300), "ppo"),
    ):
        pass


def test_a_directory_in_which_another_process_trains_is_not_to_be_removed(tmp_path: Path) -> None:
    with new_run(tmp_path / "run", "") as run:
        run.write_config({}, {}, [], {})
        with (
            run.lock(),
            pytest.raises(
                UsageError,
                match=r"exists already: another process is training in it, so name a new directory$",
            ),
        ):
            new_run(run.path, "").__enter__()


def test_what_was_recorded_outlives_checkpoints_that_somebody_has_removed(tmp_path: Path) -> None:
    class Removing(veldt.Callback):
        def on_log(self, context: veldt.CallbackContext) -> None:
            if (checkpoints := tmp_path / "run" / "checkpoints").exists():
                shutil.rmtree(checkpoints)
                raise KeyError("mine")

    settings = SMALL | {"env_backend": "in-process", "steps": 10_000, "log_every": 0.01}
    with pytest.raises(veldt.VeldtError, match="mine"):
        veldt.train(
            "ppo", env="CartPole-v1", run_dir=tmp_path / "run", callbacks=[Removing()], quiet=True, **settings
        )
    assert (tmp_path / "run" / "config.json").exists() and (tmp_path / "run" / "metrics.jsonl").exists()
