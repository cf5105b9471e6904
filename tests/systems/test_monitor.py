"""Rows of metrics average what was recorded in their interval."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from run_rows import metrics

from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.directory import RunDirectory
from veldt.sampling.episodes import Episode, ReturnTracker
from veldt.systems.driver.evaluating import Evaluating
from veldt.systems.driver.monitor import Monitor
from veldt.systems.roles.messages import FinishedEvaluation, LearnerMetrics, UpdateMetrics
from veldt.tracking.callback import CallbackContext, CallbackGroup
from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.progress import Progress
from veldt.tracking.recording import Recording
from veldt.tracking.stage_clock import StageClock


def started(
    recipe: str, path: Path, clock: StageClock | None = None
) -> tuple[Monitor, RunDirectory, LoggerGroup]:
    config = with_settings(find(recipe).config("CartPole-v1"), {"log_every": 0.0})
    directory = RunDirectory.create(path, "run")
    loggers = LoggerGroup(directory.path)
    callbacks = CallbackGroup((), CallbackContext(directory.path, {}, loggers))
    recording = Recording(Progress("", 100), loggers, callbacks)
    monitor = Monitor(config, directory, ReturnTracker(), clock or StageClock(), recording, 1, None)
    return monitor, directory, loggers


def updates(
    sums: dict[str, float], count: int = 1, lag: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> LearnerMetrics:
    """The message on so many updates; `lag` has the minimum, the sum of the means, and the maximum."""
    return LearnerMetrics(count, sums, lag[1], lag[0], lag[2], 1e-3, count, {}, {})


def test_a_warning_of_the_algorithm_s_settings_is_shown_once(tmp_path: Path) -> None:
    monitor, directory, loggers = started("c51", tmp_path)
    for probability in (0.1, 0.5, 0.9):
        monitor.record_updates(updates({"train/outer_atoms_probability": probability}))
        monitor.log(0.1, 1, {})
    monitor.close()
    loggers.close()
    events = [json.loads(line) for line in (directory.path / "events.jsonl").read_text().splitlines()]
    texts = [event["text"] for event in events if event["kind"] == "warning"]
    assert len(texts) == 1 and texts[0].startswith("warning: 50% of the targets' probability"), events


@pytest.mark.parametrize("ends", [False, True])
def test_a_note_says_once_that_no_episode_ends(ends: bool, tmp_path: Path) -> None:
    monitor, directory, loggers = started("ppo", tmp_path)
    for _ in range(3):
        monitor.count_steps(5_000 * 32)
        if ends:
            monitor.record_episode(Episode(0, 0, 0, 1.0, np.zeros(20)), 1, counts=True)
        monitor.log(0.1, 1, {})
    monitor.close()
    loggers.close()
    texts = [event["text"] for event in directory.read_events()]
    assert [text.split(":")[0] for text in texts] == (
        [] if ends else ["no episode has ended in 320,000 steps"]
    )
    assert ends or "--env-kwargs '{\"max_episode_steps\": 1000}'" in texts[0]


def test_an_evaluation_beside_training_is_of_the_step_at_which_it_began(tmp_path: Path) -> None:
    monitor, directory, loggers = started("impala", tmp_path)
    settings: Any = SimpleNamespace(
        config=SimpleNamespace(run=SimpleNamespace(evaluate_every=1, evaluate_steps=60))
    )
    monitor.count_steps(5000)
    evaluating = Evaluating(settings, directory, monitor, StageClock(), 0)
    evaluating.record(FinishedEvaluation(3000, [1.0, 3.0], [10, 20]))
    evaluating.record(FinishedEvaluation(4000, [], []))
    monitor.close()
    loggers.close()
    texts = [event["text"] for event in directory.read_events()]
    assert texts[0].startswith("evaluation at step 3,000: 2 episodes, raw return 2.0")
    assert texts[1:] == ["evaluation at step 4,000: no episode ended in 60 steps"]


def test_a_row_averages_the_metrics_since_the_row_before(tmp_path: Path) -> None:
    monitor, directory, loggers = started("impala", tmp_path)
    monitor.record_updates(updates({"train/loss": 6.0}, 2, (1.0, 3.0, 2.0)))  # sums of two updates
    monitor.record_updates(updates({"train/loss": 3.0}, 1, (9.0, 12.0, 14.0)))
    monitor.log(0.1, 3, {})
    monitor.record_updates(updates({"train/loss": 1.0}, 1, (4.0, 4.0, 4.0)))
    monitor.log(0.1, 4, {})
    monitor.log(0.1, 4, {})
    monitor.close()
    loggers.close()
    lags = [
        [row.get(f"train/policy_lag_{name}") for name in ("min", "mean", "max")]
        for row in metrics(directory.path)
    ]
    assert lags == [[1.0, 5.0, 14.0], [4.0, 4.0, 4.0], [None, None, None]]
    assert [row.get("train/loss") for row in metrics(directory.path)] == [3.0, 1.0, None]


def test_a_metric_is_averaged_over_the_updates_that_had_it(tmp_path: Path) -> None:
    """As of a delayed actor, whose loss is computed in every other update."""
    sent = UpdateMetrics()
    for update in range(1, 6):
        delayed = {"actor_loss": torch.tensor(8.0)} if update % 2 == 0 else {}
        sent.add({"critic_loss": torch.tensor(1.0), **delayed}, (0.0, 0.0, 0.0), 1e-3)
    message = sent.take(5, {}, {})
    monitor, directory, loggers = started("ddpg", tmp_path)
    monitor.record_updates(message)
    monitor.record_updates(updates({"train/critic_loss": 7.0}))
    monitor.log(1e-3, 6, {})
    monitor.close()
    loggers.close()
    (row,) = metrics(directory.path)
    assert (row["train/critic_loss"], row["train/actor_loss"]) == (2.0, 8.0)


def test_a_row_has_the_cores_and_the_memory_of_the_run_s_processes(tmp_path: Path) -> None:
    monitor, directory, loggers = started("ppo", tmp_path)
    monitor.log(0.1, 0, {})
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        begin, used = time.perf_counter(), 0.0
        while (used < 0.5 or time.perf_counter() - begin < 1.1) and time.perf_counter() - begin < 30:
            used = sum(psutil.Process(child.pid).cpu_times()[:2])
        monitor.log(0.1, 0, {})
        child.kill()
    monitor.close()
    loggers.close()
    rows = metrics(directory.path)
    seconds = rows[1]["seconds"] - rows[0]["seconds"]
    assert (
        used * 0.8 <= rows[1]["system/cores"] * seconds <= 2.2 * seconds
    )  # one core by each of the two processes
    assert rows[1]["system/memory_bytes"] > rows[0]["system/memory_bytes"] > 1e7


def test_the_waiting_time_of_all_rows_is_that_of_the_run(tmp_path: Path) -> None:
    """A process that reports its time late must not have it counted as waiting, too."""
    clock = StageClock()
    monitor, directory, loggers = started("ppo", tmp_path, clock)
    for _ in range(4):
        for late in (0.0, 0.1):
            time.sleep(0.05)
            clock.seconds["simulate"] += late
            monitor.log(0.1, 0, {})
    monitor.close()
    loggers.close()
    rows = metrics(directory.path)
    spent = sum(
        value
        for row in rows
        for name, value in row.items()
        if name.startswith("time/") and name.endswith("_seconds")
    )
    # At most what was waited before the first report is too much.
    assert spent <= rows[-1]["seconds"] + 0.06


class Shown(Progress):
    """Keeps what is shown."""

    def __init__(self) -> None:
        super().__init__("", 100)
        self.rows: list[dict[str, Any]] = []

    def update(self, row: Any) -> None:
        self.rows.append(dict(row))

    refresh = update


def test_a_refresh_shows_the_last_row_with_the_time_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown()
    monkeypatch.setattr(sys.modules[__name__], "Progress", lambda *_: shown)
    monitor, _, loggers = started("ppo", tmp_path)
    monitor.refresh()
    monitor.count_steps(5_000)
    monitor.log(0.1, 0, {})
    monitor.count_steps(5_000)
    monitor.log(0.1, 4, {})
    time.sleep(0.02)
    monitor.refresh()
    monitor.close()
    loggers.close()
    first, before_learning, row, later = shown.rows
    assert first["step"] == 0 and first["eta_seconds"] is None
    assert before_learning["eta_seconds"] is None, "the steps before learning starts are faster"
    assert later["step"] == row["step"] == 10_000
    gone = later["seconds"] - row["seconds"]
    assert gone >= 0.02 and later["eta_seconds"] == pytest.approx(row["eta_seconds"] - gone, abs=0.02)


@pytest.mark.parametrize("recipe", ["ppo", "dqn"])
def test_a_row_without_steps_has_the_speed_of_the_rows_before(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown()
    monkeypatch.setattr(sys.modules[__name__], "Progress", lambda *_: shown)
    monitor, _, loggers = started(recipe, tmp_path)
    for steps, updates in ((0, 0), (2048, 4), (0, 4), (0, 4)):
        time.sleep(0.05)
        monitor.count_steps(steps)
        monitor.log(0.1, updates, {})
    monitor.close()
    loggers.close()
    speeds = [row["time/steps_per_second"] for row in shown.rows]
    assert speeds[0] == 0 and shown.rows[0]["eta_seconds"] is None
    # What fills a replay buffer says nothing of the steps to come; a rollout has taken the rows before it, too.
    assert speeds[1] <= 2048 / (0.05 if recipe == "dqn" else 0.1)
    assert speeds[1] > speeds[2] > speeds[3] > 0
    assert all(row["eta_seconds"] > 0 for row in shown.rows[1:])
