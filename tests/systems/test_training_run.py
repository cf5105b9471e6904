"""The driver of a distributed run, with a supervisor that starts no role."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.errors import EnvError, VeldtError
from veldt.exchange.graph import Graph
from veldt.exchange.rate_limiter import RateLimiter
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.directory import RunDirectory
from veldt.systems.driver import training_run
from veldt.systems.driver.checkpointing import Checkpointing, DriverState
from veldt.systems.driver.training_run import TrainingRun
from veldt.systems.planning.run_plan import RunPlan, make_run_plan
from veldt.systems.roles.messages import SnapshotPart
from veldt.tracking.callback import CallbackContext, CallbackGroup
from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.progress import Progress
from veldt.tracking.recording import Recording

STEPS = 1000
SETTINGS = {"num_envs": 4, "actors": 2, "hidden": (8,), "steps": STEPS, "device": "cpu"}


NOTHING: Mapping[str, Any] = {}


class NoRoles:
    """A supervisor of a run that has nothing left to do."""

    def kill(self) -> None:
        pass


def supervise_nothing(graph: Graph) -> tuple[Any, dict[str, Any]]:
    return NoRoles(), {"rate_limiter": RateLimiter(graph.edges["rate_limiter"].spec, context=None)}


def finished_checkpoint(path: Path, rate_limiter: RateLimiter, recent: list[float]) -> Checkpoint:
    """A checkpoint of a run that has done all its steps, and whose last episodes had the returns `recent`."""
    counts = {
        "steps": [STEPS // 2, STEPS // 2],
        "updates": [7] * len(rate_limiter.updates_L),
        "waived": [0] * len(rate_limiter.waived_L),
        "starts": 0,
    }
    meta = {
        "monitor": {"steps": STEPS, "episode_log": [0, 0]},
        "rate_limiter": counts,
        "scores": {"num_episodes": 345, "recent": recent},
        "role_restarts": 2,
        "segments": {},
    }
    return Checkpoint(STEPS, path, meta, {})


def planned(recipe: str, more: Mapping[str, Any] = NOTHING) -> RunPlan:
    config = with_settings(find(recipe).config("CartPole-v1"), SETTINGS | more)
    return make_run_plan(RunRequest(config, resolve("CartPole-v1")))


@contextlib.contextmanager
def recording_in(directory: RunDirectory) -> Iterator[Recording]:
    loggers = LoggerGroup(directory.path)
    callbacks = CallbackGroup((), CallbackContext(directory.path, {}, loggers))
    yield Recording(Progress("", STEPS), loggers, callbacks)
    loggers.close()


@pytest.mark.parametrize("recipe", ["impala", "apex-dqn"])
def test_a_resumed_run_has_the_scores_of_its_checkpoint(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_plan = planned(recipe, {"buffer_size": 1000} if recipe == "apex-dqn" else {})
    graph = run_plan.graph()
    _, edges = supervise_nothing(graph)
    recent = [float(score) for score in range(100, 200)]
    checkpoint = finished_checkpoint(tmp_path / "step", edges["rate_limiter"], recent)
    directory = RunDirectory.create(tmp_path, "run")
    # The checkpoint goes to the driver alone: no role is started that would read it.
    monkeypatch.setattr(RunPlan, "graph", lambda self, *resumed: graph)
    with recording_in(directory) as recording:
        run = TrainingRun(run_plan, directory, recording, checkpoint, supervise_nothing)
        assert run.role_restarts == 2
        outcome = run.run(threading.Event())
    assert outcome.reason == "steps"
    assert outcome.summary["episodes"] == 345
    assert outcome.summary["ep_return_mean"] == np.mean(recent)


class MuteRoles(NoRoles):
    """A supervisor of roles that never send anything."""

    is_inline = False

    def __init__(self, works: bool) -> None:
        self._works = works

    def start(self, while_working: Any) -> None:
        pass

    def request_snapshot(self) -> int:
        return 1

    def snapshot_done(self) -> None:
        pass

    def poll(self, patience_s: float) -> list[Any]:
        time.sleep(0.01)
        return []

    def works(self, role: int, silent_s: float) -> bool:
        return self._works


@pytest.mark.parametrize(
    ("works", "error", "note"),
    [
        (False, KeyboardInterrupt, "no last checkpoint: the learner did not answer"),
        (True, VeldtError, "the last checkpoint lacks the part of the learner"),
    ],
    ids=["it starts or hangs", "it works"],
)
def test_an_interrupted_run_waits_only_for_roles_that_work(
    works: bool,
    error: type[BaseException],
    note: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A role that hangs, or that is only being started, would keep the user waiting for minutes."""
    monkeypatch.setattr(training_run, "_INTERRUPTED_S", 0.1)
    monkeypatch.setattr(training_run, "_PARTS_S", 0.3)
    stop = threading.Event()
    stop.set()

    def start_mute(graph: Graph) -> tuple[Any, dict[str, Any]]:
        return MuteRoles(works), supervise_nothing(graph)[1]

    with recording_in(directory := RunDirectory.create(tmp_path, "run")) as recording:
        run = TrainingRun(planned("impala"), directory, recording, None, start_mute)
        run._monitor.steps = 100
        with pytest.raises(error) as caught:
            run.run(stop)
    assert note in "".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    said = [event["text"] for event in directory.read_events()]
    assert said.count("the checkpoint waits for the learner") == works, said


class FailingRoles(MuteRoles):
    """A supervisor of a role of this process, whose first poll fails after the user has asked to stop."""

    is_inline = all_ended = True

    def __init__(self, stop: threading.Event) -> None:
        super().__init__(works=True)
        self._stop = stop

    def start(self, while_working: Any) -> None:
        self.while_working = while_working

    def poll(self, patience_s: float) -> list[Any]:
        self._stop.set()
        raise EnvError("environment Wheel-v0 failed")

    def kill(self) -> None:
        time.sleep(0.3)
        if hasattr(self, "while_working"):
            self.while_working()


def test_a_request_to_stop_does_not_hide_why_the_first_phase_failed(tmp_path: Path) -> None:
    stop = threading.Event()
    roles = FailingRoles(stop)

    def start_failing(graph: Graph) -> tuple[Any, dict[str, Any]]:
        return roles, supervise_nothing(graph)[1]

    with recording_in(directory := RunDirectory.create(tmp_path, "run")) as recording:
        run = TrainingRun(planned("impala"), directory, recording, None, start_failing)
        with pytest.raises(EnvError, match="Wheel-v0"):
            run.run(stop)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the open files cannot be counted here")
def test_a_checkpoint_that_cannot_be_restored_leaves_no_open_file(tmp_path: Path) -> None:
    with recording_in(directory := RunDirectory.create(tmp_path, "run")) as recording:
        plan = planned("impala")
        checkpoint = finished_checkpoint(tmp_path, supervise_nothing(plan.graph())[1]["rate_limiter"], [])
        checkpoint.meta["incarnations"] = {}
        del checkpoint.meta["scores"]
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(KeyError, match="scores"):
            TrainingRun(plan, directory, recording, checkpoint, supervise_nothing)
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_run_that_is_interrupted_before_its_first_step_ends_at_once(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()

    def start_mute(graph: Graph) -> tuple[Any, dict[str, Any]]:
        return MuteRoles(works=True), supervise_nothing(graph)[1]

    with recording_in(directory := RunDirectory.create(tmp_path, "run")) as recording:
        run = TrainingRun(planned("impala"), directory, recording, None, start_mute)
        with pytest.raises(KeyboardInterrupt):
            run.run(stop)


def test_a_checkpoint_of_a_run_that_was_moved_away_does_not_hide_why_the_run_failed(tmp_path: Path) -> None:
    """Its note would be written by path, too, and say only that there is no such file."""
    directory, notes = RunDirectory.create(tmp_path, "run"), list[str]()
    roles: Any = MuteRoles(works=True)
    state = DriverState(10, {}, None)
    saving = Checkpointing(roles, [0], dict, directory, 1, lambda parts: state, None, lambda step: None)
    with directory.lock():
        directory.path.rename(tmp_path / "moved")
        saving.request()
        saving.add(0, SnapshotPart(1, {"weights": {}, "optimiser": {}}))
        saving.advance()
        saving.finish_after_failure(notes.append)
    assert notes == []
    assert not directory.path.exists()
