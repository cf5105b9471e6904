"""What an interrupted experiment says, and what is left of it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from screens import console, said_on
from small_experiments import experiment
from tiny_runs import TINY
from veldt.errors import UsageError
from veldt.experiments.experiment import Request, Training
from veldt.experiments.run import run_experiment
from veldt.experiments.scheduler import JobProgress, Scheduler
from veldt.experiments.workspace import Workspace


def test_an_interrupt_names_the_page_and_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Training(group="ppo", recipe="ppo", env="CartPole-v1", seed=1, settings=TINY)

    def interrupted(self: Scheduler) -> JobProgress:
        raise KeyboardInterrupt

    monkeypatch.setattr(Scheduler, "run", interrupted)
    with pytest.raises(KeyboardInterrupt) as said:
        run_experiment(experiment([job]), Request("small", 1), tmp_path / "out", console())
    page = tmp_path / "out" / "experiment.html"
    assert said.value.__notes__ == [f"0 of 1 run is done, which {page} shows. The same command continues."]
    assert page.exists()


def test_an_interrupted_run_counts_with_the_steps_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veldt.experiments.planning.estimate.allowed_cores", lambda: [0])
    monkeypatch.setattr("veldt.experiments.run.measure_speeds", lambda *_: defaultdict(lambda: 10.0))
    jobs = [
        Training(group="ppo", recipe="ppo", env="CartPole-v1", seed=seed, settings={"steps": 6_000})
        for seed in (1, 2)
    ]
    root, screen = tmp_path / "out", console()
    (root / "runs" / jobs[0].name / "checkpoints" / "step-000000005000").mkdir(parents=True)
    (root / "runs" / jobs[1].name).mkdir()
    (root / "runs" / jobs[1].name / "checkpoints").symlink_to("checkpoints")  # cannot be read
    first = Workspace(root, experiment(jobs), Request("small", 2))
    first.begin()
    run_experiment(experiment(jobs), Request("small", 2), root, screen, plan_only=True)
    assert "2 runs, 2 to do, 7,000 steps" in said_on(screen)
    assert "2 runs, about 0.2 hours (11m 48s) on this machine" in said_on(screen)
    with pytest.raises(UsageError, match=r"too small for one run, which takes about 0.029 hours here"):
        run_experiment(experiment(jobs), Request("small", 2), root, console(), budget_hours=0.01)
