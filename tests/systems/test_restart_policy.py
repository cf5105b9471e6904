"""How often a run of synchronised learners is restarted: by --max-restarts, and as long as it makes sense."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Sequence
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veldt
from veldt.errors import RoleError, UsageError
from veldt.exchange.graph import Graph
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import newest_checkpoint
from veldt.runtime.supervision.decisions import SupervisedRole
from veldt.runtime.supervision.local import LocalProcessHandle, Supervisor
from veldt.systems.driver import restart_policy
from veldt.systems.driver.restart_policy import RestartLimit, run_restarting


class Failing:
    """A run that fails `times` times, with the checkpoint of the same step; its errors have these `moments` in turn."""

    role_restarts = 0

    def __init__(self, times: int, details: str, moments: Sequence[str] = ("",)) -> None:
        self.left, self.details, self.begun, self.moments = times, details, 0, itertools.cycle(moments)

    def begin(self, checkpoint: Checkpoint | None, history: Any = None) -> Any:
        self.begun += 1
        return self

    def run(self, stop: threading.Event) -> Any:
        self.left -= 1
        if self.left >= 0:
            moment = next(self.moments)
            raise RoleError("the learner 1 is lost", details=self.details, is_final=False, moment=moment)
        return "outcome"


@pytest.fixture
def checkpoint(monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    checkpoint = Checkpoint(path=Path("step-100"), step=100, groups={}, meta={})
    monkeypatch.setattr(restart_policy, "newest_checkpoint", lambda directory: checkpoint)
    return checkpoint


def test_learners_that_are_killed_again_and_again_are_restarted(checkpoint: Checkpoint) -> None:
    run = Failing(50, details="")
    assert (
        restart_policy.run_restarting(run.begin, checkpoint, Path("run"), RestartLimit(1000, True))
        == "outcome"
    )  # type: ignore[comparison-overlap]
    assert run.begun == 51


def test_the_same_error_three_times_ends_the_run_and_says_why(checkpoint: Checkpoint) -> None:
    run = Failing(50, details="Traceback ...")
    with pytest.raises(RoleError) as caught:
        restart_policy.run_restarting(run.begin, checkpoint, Path("run"), RestartLimit(100, False))
    assert run.begun == 3
    (note,) = caught.value.__notes__
    assert "3 errors in a row came before a new checkpoint. --max-restarts, where you give it" in note


def test_an_env_that_kills_its_process_in_the_same_step_each_time_ends_the_run(
    checkpoint: Checkpoint,
) -> None:
    """All learners come to it again from their checkpoint, and the envs of two of them may do so."""
    first, second = "env 1 (seed 5), in step 24", "env 3 (seed 7), in step 38"
    run = Failing(50, "", [first, second])
    with pytest.raises(RoleError) as caught:
        restart_policy.run_restarting(run.begin, checkpoint, Path("run"), RestartLimit(100, False))
    assert run.begun == 5
    assert "it died in that step of that episode 3 times, and no new checkpoint" in caught.value.__notes__[0]
    run = Failing(50, "", [first])
    assert run_restarting(run.begin, checkpoint, Path("run"), RestartLimit(100, True)) == "outcome"  # type: ignore[comparison-overlap]


def test_a_new_checkpoint_forgets_deaths_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = itertools.count(100)
    monkeypatch.setattr(
        restart_policy,
        "newest_checkpoint",
        lambda directory: Checkpoint(path=Path("step"), step=next(steps), groups={}, meta={}),
    )
    run = Failing(50, "", ["env 1 (seed 5), in step 24"])
    outcome = run_restarting(run.begin, None, Path("run"), RestartLimit(100, False))
    assert outcome == "outcome"  # type: ignore[comparison-overlap]


def test_max_restarts_that_are_given_are_the_only_limit(checkpoint: Checkpoint) -> None:
    run = Failing(50, details="Traceback ...")
    given = RestartLimit(1000, True)
    assert restart_policy.run_restarting(run.begin, checkpoint, Path("run"), given) == "outcome"  # type: ignore[comparison-overlap]
    assert run.begun == 51


def test_learners_that_are_lost_before_the_first_checkpoint_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart_policy, "newest_checkpoint", lambda directory: None)
    run, given = Failing(50, details=""), RestartLimit(1000, True)
    assert restart_policy.run_restarting(run.begin, None, Path("run"), given) == "outcome"  # type: ignore[comparison-overlap]
    assert run.begun == 51


def test_a_signal_before_the_first_checkpoint_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_policy, "newest_checkpoint", lambda directory: None)
    run = Failing(1, details="")

    def fails(stop: threading.Event) -> Any:
        signal.raise_signal(signal.SIGTERM)
        raise RoleError("the learner 1 is lost", is_final=False)

    run.run = fails  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        restart_policy.run_restarting(run.begin, None, Path("run"), RestartLimit(5, False))


def test_max_restarts_is_the_limit(checkpoint: Checkpoint) -> None:
    run = Failing(50, details="")
    with pytest.raises(RoleError) as caught:
        restart_policy.run_restarting(run.begin, checkpoint, Path("run"), RestartLimit(5, False))
    assert run.begun == 6
    assert "after 5 restarts: --max-restarts is 5, and a larger one" in caught.value.__notes__[0]


def test_a_signal_between_two_runs_is_not_lost(checkpoint: Checkpoint) -> None:
    run = Failing(1, details="")
    seen = []

    def begin(checkpoint: Checkpoint | None, history: Any = None) -> Any:
        if history is not None:
            signal.raise_signal(signal.SIGTERM)
        return run.begin(checkpoint)

    def ends(stop: threading.Event) -> str:
        seen.append(stop.is_set())
        if len(seen) == 1:
            raise RoleError("the learner 1 is lost", is_final=False)
        return "interrupted"

    run.run = ends  # type: ignore[method-assign]
    limit = RestartLimit(5, False)
    assert restart_policy.run_restarting(begin, checkpoint, Path("run"), limit) == "interrupted"  # type: ignore[comparison-overlap]
    assert seen == [False, True]


@pytest.mark.parametrize("details", ["", "Traceback ..."], ids=["killed", "failed"])
def test_a_signal_that_came_before_the_loss(details: str, checkpoint: Checkpoint) -> None:
    """Whether it came before or after the loss was noticed, a kill leads to the same end; an error is shown."""
    run = Failing(1, details=details)

    def fails(stop: threading.Event) -> Any:
        if stop.is_set():
            return "interrupted"
        signal.raise_signal(signal.SIGTERM)
        raise RoleError("the learner 1 is lost", details=details, is_final=False)

    run.run = fails  # type: ignore[method-assign]
    limit = RestartLimit(5, False)
    if not details:
        assert restart_policy.run_restarting(run.begin, checkpoint, Path("run"), limit) == "interrupted"  # type: ignore[comparison-overlap]
        return
    with pytest.raises(RoleError) as caught:
        restart_policy.run_restarting(run.begin, checkpoint, Path("run"), limit)
    assert run.begun == 1 and "newest checkpoint is of step 100" in caught.value.__notes__[0]


def test_errors_before_the_first_checkpoint_end_the_run_unless_the_limit_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of processes that were killed: nothing says that the run can train at all."""
    monkeypatch.setattr(restart_policy, "newest_checkpoint", lambda directory: None)
    run = Failing(50, details="")
    with pytest.raises(RoleError) as caught:
        restart_policy.run_restarting(run.begin, None, Path("run"), RestartLimit(100, False))
    assert run.begun == 3 and "3 errors in a row came before a new checkpoint" in caught.value.__notes__[0]


def test_a_run_whose_learner_is_killed_before_the_first_checkpoint_equals_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"learners": 2, "num_envs": 4, "hidden": (16,), "threads": 1, "quiet": True}
    settings |= {"precision": "fp32", "seed": 1, "steps": 400, "env": "CartPole-v1"}
    veldt.train("a2c", run_dir=tmp_path / "whole", **settings)
    begin, lives = Supervisor.start_incarnation, list[int]()

    def begin_and_kill(self: Supervisor, role: SupervisedRole) -> LocalProcessHandle:
        handle = begin(self, role)
        if role.number == 1:
            lives.append(1)
            if len(lives) <= 2:
                (child,) = (one for one in active_children() if one.name == role.plan.name)
                child.kill()
        return handle

    monkeypatch.setattr(Supervisor, "start_incarnation", begin_and_kill)
    run = veldt.train("a2c", run_dir=tmp_path / "killed", **settings)
    assert len(lives) == 3 and "all learners begin anew" in (run.path / "events.jsonl").read_text()
    ends = [newest_checkpoint(tmp_path / name) for name in ("whole", "killed")]
    assert ends[0] is not None and ends[1] is not None and ends[0].step == ends[1].step
    for name, weights in ends[0].groups["weights"].items():
        np.testing.assert_array_equal(ends[1].groups["weights"][name], weights, name)


@pytest.mark.parametrize("given", [{}, {"max_restarts": 7}])
def test_a_given_limit_is_that_of_each_role(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def start(graph: Graph) -> Any:
        plans = [role.role_plan(0) for role in graph.roles]
        assert {plan["is_limit_given"] for plan in plans} == {bool(given)}
        assert {plan["max_restarts"] for plan in plans} == {7 if given else 100}
        raise UsageError("seen")

    monkeypatch.setattr("veldt.systems.run.start_local", start)
    small: dict[str, Any] = {"actors": 1, "num_envs": 2, "threads": 1, "precision": "fp32", "quiet": True}
    with pytest.raises(UsageError, match="seen"):
        veldt.train("impala", env="CartPole-v1", run_dir=tmp_path / "run", **small, **given)
