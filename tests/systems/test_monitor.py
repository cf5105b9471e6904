"""Rows of metrics average what was recorded in their interval."""

from __future__ import annotations

from pathlib import Path

from run_rows import metrics

from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.directory import RunDirectory
from veldt.sampling.episodes import ReturnTracker
from veldt.systems.driver.monitor import Monitor
from veldt.tracking.callback import CallbackContext, CallbackGroup
from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.progress import Progress
from veldt.tracking.recording import Recording
from veldt.tracking.stage_clock import StageClock


def test_a_row_averages_the_metrics_since_the_row_before(tmp_path: Path) -> None:
    config = with_settings(find("impala").config("CartPole-v1"), {"log_every": 0.0})
    directory = RunDirectory.create(tmp_path, "run")
    loggers = LoggerGroup(directory.path)
    callbacks = CallbackGroup((), CallbackContext(directory.path, {}, loggers))
    recording = Recording(Progress("", 100), loggers, callbacks)
    monitor = Monitor(config, directory, ReturnTracker(), StageClock(), recording, 1, None)
    monitor.record_updates({"train/loss": 6.0}, 3.0, 2, (1.0, 2.0))  # sums of two updates
    monitor.record_updates({"train/loss": 3.0}, 12.0, 1, (9.0, 14.0))
    monitor.log(0.1, 3, {})
    monitor.record_updates({"train/loss": 1.0}, 4.0, 1, (4.0, 4.0))
    monitor.log(0.1, 4, {})
    monitor.log(0.1, 4, {})
    monitor.close()
    loggers.close()
    lags = [
        [row.get(f"train/policy_lag_{name}") for name in ("min", "mean", "max")]
        for row in metrics(directory.path)
    ]
    assert lags == [[1.0, 5.0, 14.0], [4.0, 4.0, 4.0], [None, 0.0, None]]
    assert [row.get("train/loss") for row in metrics(directory.path)] == [3.0, 1.0, None]
