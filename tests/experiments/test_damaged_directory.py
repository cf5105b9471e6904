"""Damaged files of an experiment are one sentence; of damaged rows of a run, the whole ones are used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from screens import console
from small_experiments import experiment, printed
from tiny_runs import TINY
from veldt.errors import UsageError, VeldtError
from veldt.experiments.experiment import Request, Training
from veldt.experiments.results import FinishedRun
from veldt.experiments.run import run_experiment
from veldt.experiments.training_state import command_for_rest

REQUEST = Request("small", 1)
TRAINING = Training(group="ppo", recipe="ppo", env="CartPole-v1", seed=1, settings=TINY)
MAKERS = pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])


@MAKERS
@pytest.mark.parametrize("name", ["experiment.json", "measured/works-nan.json"])
def test_a_file_that_cannot_be_read_is_named(name: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    mine = experiment([printed("works", "print('{\"sps\": 5}')")])
    run_experiment(mine, REQUEST, tmp_path / "out", console())
    (tmp_path / "out" / name).unlink()
    make(tmp_path / "out" / name)
    with pytest.raises(
        UsageError, match=rf"{name} cannot be read \(.*\): remove it, or name another directory"
    ):
        run_experiment(mine, REQUEST, tmp_path / "out", console())


@pytest.mark.timeout(20)  # a pipe is waited for without end
@MAKERS
def test_a_lock_that_is_no_file_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "lock")
    with pytest.raises(UsageError, match=r"lock is a (special file|directory), and veldt writes a file"):
        run_experiment(experiment([]), REQUEST, tmp_path, console())


def test_a_run_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for make in (os.mkfifo, Path.touch, lambda path: path.symlink_to(tmp_path / "nowhere")):
        make(run)
        with pytest.raises(VeldtError, match=r"run is a .*, and veldt writes (a|no) directory"):
            command_for_rest(TRAINING, run)
        run.unlink()


def test_damaged_rows_and_results_of_a_run_are_left_out(tmp_path: Path) -> None:
    whole = '{"step": 10, "seconds": 2.0, "train/loss": 1.0}'
    damaged = ("{}", '{"step": "x", "seconds": 1}', '{"step": 5, "seconds": null, "train/loss": 2.0}', "[]")
    (tmp_path / "metrics.jsonl").write_text("\n".join((*damaged, whole)))
    (tmp_path / "summary.json").write_text('{"reason": "steps", "steps": [1], "seconds": null}')
    run = FinishedRun(TRAINING, tmp_path)
    assert (run.steps, run.seconds, run.metric("train/loss"), float(run.seconds_at(5))) == (0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize("words", ["experiment --list", "tune ppo --env CartPole-v1 --trials 1"])
def test_a_missing_matplotlib_is_named_with_its_command(words: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules['matplotlib'] = None; from veldt.cli import main; sys.exit(main({words.split()}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "veldt: figures need the package matplotlib: pip install matplotlib\n" in done.stderr
    assert done.returncode == 2 and not list(tmp_path.iterdir())
