"""A run is recorded where it was asked for, whatever becomes the working directory; moved meanwhile, it ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import veldt
from environments import Reset, Scripted, Step
from tiny_runs import TINY
from veldt.runs.directory import RunDirectory
from veldt.runs.own_names import CHECKPOINTS, SUMMARY

AFTER = 100  # steps after which the environment does something
IN_PROCESS = TINY | {"learners": 1}


class Doing(Scripted):
    """Calls `act` when it is made, in the first reset, or in the step AFTER of its process, as `when` says."""

    def __init__(self, when: str, act: Callable[[], None]) -> None:
        super().__init__([(20, "terminated")])
        self._when, self._act, self._steps = when, act, 0
        self._do("made")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._do("reset")
        return super().reset(seed=seed)

    def step(self, action: Any) -> Step:
        self._steps += 1
        if self._steps == AFTER:
            self._do("step")
        return super().step(action)

    def _do(self, now: str) -> None:
        if now == self._when:
            self._act()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory beside the working directory."""
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "elsewhere"


def moving(when: str, elsewhere: Path) -> Callable[[], gymnasium.Env[Any, Any]]:
    """Returns what makes an environment that changes the working directory to `elsewhere`."""
    return lambda: Doing(when, lambda: os.chdir(elsewhere))


@pytest.mark.parametrize("run_dir", [None, "mine"])
@pytest.mark.parametrize("when", ["made", "reset", "step"])
def test_an_environment_that_changes_the_working_directory_loses_nothing(
    when: str, run_dir: str | None, elsewhere: Path
) -> None:
    here = Path.cwd()
    run = veldt.train(
        "ppo", env=moving(when, elsewhere), run_dir=run_dir, quiet=True, **IN_PROCESS | {"steps": 1000}
    )
    assert Path.cwd() == elsewhere
    assert run.path.parent == (here if run_dir else here / "runs")
    assert (run.path / SUMMARY).is_file()
    assert len(list((run.path / CHECKPOINTS).iterdir())) == 2
    os.chdir(here)
    again = veldt.resume(run.path.relative_to(here), env=moving(when, elsewhere), quiet=True, steps=2000)
    assert again.summary["steps"] >= 2000
    assert RunDirectory(run.path).read_summary() == again.summary
    os.chdir(here)
    exported = veldt.export(
        run.path.relative_to(here), out="export", env=moving(when, elsewhere), episodes=1, video=False
    )
    assert exported.path.absolute() == here / "export"
    os.chdir(here)
    starts = veldt.record_starts(run.path.relative_to(here), starts=2, env=moving(when, elsewhere))
    assert starts.path.absolute().parent == run.path
    assert not list(elsewhere.iterdir())


class InOwnDirectory(Scripted):
    """Works in a directory of its own, which it removes when it is closed."""

    def __init__(self, directories: Path) -> None:
        super().__init__([(20, "terminated")])
        self._own = tempfile.TemporaryDirectory(dir=directories)
        os.chdir(self._own.name)

    def close(self) -> None:
        self._own.cleanup()


@pytest.mark.parametrize(
    "placed", [{"env_backend": "in-process"}, {"env_backend": "workers", "processes": 1}]
)
def test_an_environment_may_remove_the_working_directory(placed: dict[str, Any], elsewhere: Path) -> None:
    here = Path.cwd()
    settings = IN_PROCESS | {"steps": 500} | placed
    run = veldt.train("ppo", env=lambda: InOwnDirectory(elsewhere), run_dir="mine", quiet=True, **settings)
    assert run.summary["steps"] >= 500
    assert (here / "mine" / SUMMARY).is_file()
    os.chdir(here)
    assert not list(elsewhere.iterdir())


def remove(run: Path) -> None:
    shutil.rmtree(run)


def move(run: Path) -> None:
    run.rename(run.with_name("moved"))


def replace(run: Path) -> None:
    move(run)
    shutil.copytree(run.with_name("moved"), run)


@pytest.mark.parametrize("change", [remove, move, replace])
def test_a_run_whose_directory_is_taken_away_ends_and_writes_no_other(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    path, mark = tmp_path / "run", tmp_path / "mark"

    def act() -> None:
        if not mark.exists():  # the first of the run's envs
            mark.touch()
            change(path)

    settings = IN_PROCESS | {"steps": 2000}
    with pytest.raises(veldt.VeldtError, match=r"run was removed, moved or replaced.*`veldt resume` it"):
        veldt.train("ppo", env=lambda: Doing("step", act), run_dir=path, quiet=True, **settings)
    assert path.exists() == (change is replace)
    assert not (path / SUMMARY).exists()
