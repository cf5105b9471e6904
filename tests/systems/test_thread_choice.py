"""The number of training threads is decided again only where an update's time has changed for long."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

import veldt
from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.systems.planning import autotune
from veldt.systems.planning.autotune import ThreadTimes
from veldt.systems.planning.run_plan import make_run_plan
from veldt.systems.roles import thread_choice
from veldt.systems.roles.thread_choice import ThreadChoice

ONE_IS_BEST = ThreadTimes(2, 0.020, 0.060)
TWO_ARE_BEST = ThreadTimes(2, 0.020, 0.010)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_choice, "_PAUSE_S", 0.0)


class Machine:
    """Adds windows of updates of a given time to a choice, and lists its measurements and notes."""

    def __init__(self, threads: int = 2) -> None:
        self.times, self.measured, self.notes = TWO_ARE_BEST, 0, list[str]()
        self.choice = ThreadChoice(threads, self._measure, self.notes.append)

    def _measure(self) -> ThreadTimes:
        self.measured += 1
        return self.times

    def train(self, update_s: float, windows: int) -> list[bool]:
        updates = round(thread_choice._WINDOW_S / update_s) + 1
        return [self.choice.add(updates * update_s, updates) for _ in range(windows)]


def test_a_steady_machine_is_not_measured() -> None:
    machine = Machine()
    machine.train(0.5, 1)  # the first window includes warming up
    for update_s in (0.01, 0.012, 0.014, 0.009, 0.01):
        machine.train(update_s, 4)
    assert machine.measured == 0 and machine.choice.threads == 2


def test_a_short_disturbance_is_not_measured() -> None:
    machine = Machine()
    machine.train(0.01, 3)
    machine.train(0.05, 1)
    machine.train(0.01, 3)
    assert machine.measured == 0


def test_a_neighbour_takes_the_second_thread_and_gives_it_back() -> None:
    machine = Machine()
    machine.train(0.01, 3)
    machine.times = ONE_IS_BEST
    assert machine.train(0.03, 2) == [False, True]
    assert machine.choice.threads == 1
    assert machine.notes == [
        "threads 1 from now on: updates have become 3.0 times as slow "
        "(20.0 ms on 1 thread, 60.0 ms on 2, not 1.4 times as fast)"
    ]
    machine.train(0.02, 3)
    machine.times = TWO_ARE_BEST
    assert machine.train(0.012, 2) == [False, True]
    assert machine.choice.threads == 2 and "1.7 times as fast (20" in machine.notes[-1]


def test_measurements_that_change_nothing_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_choice, "_PAUSE_S", 1000.0)
    machine = Machine()
    machine.choice._measured_at = -2000.0
    machine.train(0.01, 3)
    machine.train(0.03, 2)
    assert machine.measured == 1 and machine.choice.threads == 2 and not machine.notes
    machine.train(0.01, 2)
    machine.train(0.03, 20)
    assert machine.measured == 1


def test_given_threads_are_never_measured() -> None:
    choice = ThreadChoice(2, None, pytest.fail)
    assert not any(choice.add(6.0, updates) for updates in (600, 600, 100, 100, 100))


@pytest.mark.parametrize(
    ("recipe", "settings", "may_change"),
    [
        ("a2c", {}, True),
        ("a2c", {"threads": 2}, False),
        ("a2c", {"learners": 2}, False),
        ("impala", {"actors": 1}, False),
    ],
    ids=["auto", "given", "two learners", "a learner role"],
)
def test_whose_threads_may_change(
    recipe: str, settings: dict[str, int], may_change: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "_SMALL_NETWORK", 0)
    monkeypatch.setattr(autotune, "training_threads", lambda asked: asked or 2)
    every = {"num_envs": 4, "hidden": (8,), "device": "cpu", "precision": "fp32"}
    config = with_settings(find(recipe).config("CartPole-v1"), every | settings)
    request = RunRequest(config, resolve("CartPole-v1"), given=settings)
    assert make_run_plan(request).may_change_threads is may_change
    assert not make_run_plan(dataclasses.replace(request, repeats=Path("run"))).may_change_threads


def test_a_resumed_run_keeps_the_threads_that_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its measurement leaves torch's random numbers and threads alone."""
    monkeypatch.setattr(autotune, "_SMALL_NETWORK", 0)
    monkeypatch.setattr(autotune, "training_threads", lambda asked: asked or 2)
    monkeypatch.setattr(thread_choice, "_WINDOW_S", 0.0)
    monkeypatch.setattr(thread_choice, "_CHANGED", 0.0)
    before = torch.get_num_threads()
    state = torch.get_rng_state()
    monkeypatch.setattr(autotune, "_pass_seconds", lambda *arguments: 0.01)
    monkeypatch.setattr(
        "veldt.systems.planning.run_plan.time_threads",
        lambda *arguments: autotune.time_threads(*arguments) and TWO_ARE_BEST,
    )
    settings = {
        "num_envs": 4,
        "hidden": (8,),
        "device": "cpu",
        "precision": "fp32",
        "env_backend": "in-process",
    }
    path = veldt.train(
        "a2c", env="CartPole-v1", run_dir=tmp_path / "run", steps=1000, quiet=True, **settings
    ).path
    assert torch.equal(torch.get_rng_state(), state)
    newest = CheckpointStore(path / "checkpoints").newest(print)
    assert newest.meta["learners"]["0"]["threads"] == 2
    (event,) = (row for row in RunDirectory(path).read_events() if row["kind"] == "threads")
    assert event["text"].startswith("threads 2 from now on")
    monkeypatch.setattr(thread_choice, "_CHANGED", 1e9)
    again = veldt.reproduce(path, run_dir=tmp_path / "again", quiet=True)
    assert again.cause == "the first run changed its number of training threads (events.jsonl says when)"
    resumed = veldt.resume(path, steps=2000, quiet=True)
    newest = CheckpointStore(resumed.path / "checkpoints").newest(print)
    assert newest.meta["learners"]["0"]["threads"] == 2
    torch.set_num_threads(before)


@pytest.mark.parametrize(("bf16_s", "chosen"), [(0.9, "fp32"), (0.7, "bf16")])
def test_bf16_is_chosen_only_where_it_is_clearly_faster(
    bf16_s: float, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that noise in the timings does not decide about the results of a command."""
    monkeypatch.setattr(autotune, "_SMALL_NETWORK", 0)
    seconds = {"fp32": 1.0, "bf16": bf16_s}
    monkeypatch.setattr(autotune, "_pass_seconds", lambda network, rows, device, name, threads: seconds[name])
    run_plan = make_run_plan(
        RunRequest(
            with_settings(find("ppo").config("CartPole-v1"), {"threads": 1, "device": "cpu"}),
            resolve("CartPole-v1"),
            given={},
        )
    )
    assert run_plan.config.run.precision == chosen
