"""The command line in this process, and a finished run to point it at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from run_files import DQN_SETTINGS

import veldt
from veldt.cli import main
from veldt.runs.directory import RunDirectory

Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """A function: arguments and the expected exit code -> the one sentence on stderr."""

    def run(*arguments: str, code: int = 2) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        shown = capsys.readouterr()
        assert stopped.value.code == code, shown.err
        assert shown.out == ""
        assert shown.err.startswith("veldt: ") and shown.err.count("\n") == 1, shown.err
        assert "Traceback" not in shown.err and "│" not in shown.err
        return shown.err.removeprefix("veldt: ").strip()

    return run


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of PPO with two checkpoints, not to be changed."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    veldt.train(
        "ppo",
        env="CartPole-v1",
        run_dir=path,
        quiet=True,
        steps=128,
        num_envs=4,
        batch_size=64,
        minibatches=2,
        hidden=(8,),
        checkpoint_every=64,
        keep_checkpoints=2,
        env_backend="in-process",
        evaluate_steps=2_000,
    )
    assert len(list((path / "checkpoints").iterdir())) == 2
    return path


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="session")
def finished_dqn_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of DQN with three checkpoints and the segments of their replay buffer, not to be changed."""
    path = tmp_path_factory.mktemp("runs") / "finished_dqn"
    veldt.train("dqn", run_dir=path, **DQN_SETTINGS)
    assert len(list((path / "checkpoints").iterdir())) == 3
    assert len(list((path / "replay" / "learner-0").iterdir())) >= 3
    RunDirectory(path).write_event(0, "note", "it began")
    return path


@pytest.fixture
def dqn_run(finished_dqn_run: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished_dqn_run, tmp_path / "run"))


@pytest.fixture
def user_files(tmp_path: Path) -> Path:
    """A directory of the user's beside the run, with names that veldt would give to files of a run."""
    path = tmp_path / "user_files"
    (path / "step-000000000001").mkdir(parents=True)
    for name in ("thesis.txt", "rows-000001.safetensors", "step-000000000001/manifest.json"):
        (path / name).write_text(f"the user's own: {name}\n")
    return path
