"""An experiment on a disk that fills loses nothing: the same command continues when there is room."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from screens import console, said_on
from small_experiments import Printed, experiment, printed
from tiny_runs import TINY
from veldt.errors import VeldtError
from veldt.experiments.experiment import Request, Training
from veldt.experiments.run import run_experiment

SmallDisk = Callable[[int], AbstractContextManager[Path]]
ROOM = 16 << 20
REQUEST = Request("small", 1)
mounted = pytest.mark.parametrize("small_disk", ["mounted"], indirect=True)


def fill(disk: Path, room: int) -> Path:
    """Writes a file that leaves so many bytes free; returns its path."""
    ballast = disk / "ballast"
    ballast.write_bytes(b"\0" * (shutil.disk_usage(disk).free - room))
    return ballast


@pytest.mark.timeout(400)  # two runs and a probe, one after another
@mounted
def test_a_run_whose_disk_fills_is_continued(small_disk: SmallDisk) -> None:
    """The first run is done, the second finds no room, and the measurement after it is not tried."""
    settings = {**TINY, "hidden": (128, 128)}
    jobs = [
        Training(group="ppo", recipe="ppo", env="CartPole-v1", seed=seed, settings=settings, cores=0)
        for seed in (1, 2)
    ]
    measured = Printed(group="last", words=("print('{\"sps\": 5}')",), seconds=1.0, cores=0)
    mine = experiment([*jobs, measured])
    with small_disk(ROOM) as disk:
        root = disk / "out"
        run_experiment(experiment(jobs[:1]), REQUEST, root, console())
        ballast = fill(disk, 64 << 10)
        sentence = r"cartpole-v1-ppo-2 was stopped: cannot write .*: the disk is full \(.* free there\); make room, and"
        with pytest.raises(VeldtError, match=sentence):
            run_experiment(mine, REQUEST, root, console())
        assert not list(root.glob("measured/*"))
        ballast.unlink()
        screen = console()
        page = run_experiment(mine, REQUEST, root, screen)
        assert "mine: 3 runs, 1 done, 2 to do" in said_on(screen)
        assert page is not None and page.read_text().count("CartPole-v1, ppo</a>") == 2


@mounted
def test_a_page_that_does_not_fit_is_written_by_the_next_command(small_disk: SmallDisk) -> None:
    mine = experiment([printed("works", "print('{\"sps\": 5}')")])
    with small_disk(ROOM) as disk:
        root = disk / "out"
        ballast = fill(disk, 12 << 10)
        sentence = (
            r"cannot write (a figure|a table|the page of results) to .*: the disk is full .*the same command"
        )
        with pytest.raises(VeldtError, match=sentence):
            run_experiment(mine, REQUEST, root, console())
        assert not [path for path in root.iterdir() if "partial" in path.name]
        ballast.unlink()
        screen = console()
        assert run_experiment(mine, REQUEST, root, screen) == root / "experiment.html"
        assert re.search(r"mine: 1 run, 1 done\s*$", said_on(screen), re.MULTILINE)


@pytest.mark.parametrize("room", [0, 4096])
@mounted
def test_a_disk_that_is_full_from_the_beginning_is_one_sentence(room: int, small_disk: SmallDisk) -> None:
    """Whether nothing of the experiment fits, or only its settings."""
    mine = experiment([printed("works", "print('{}')")])
    with small_disk(ROOM) as disk:
        ballast = fill(disk, room)
        with pytest.raises(VeldtError, match=r"cannot write .*: the disk is full .* the same command"):
            run_experiment(mine, REQUEST, disk / "out", console())
        ballast.unlink()
        assert run_experiment(mine, REQUEST, disk / "out", console())
