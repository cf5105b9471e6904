"""Weights & Biases, trackio and MLflow: offline against the packages where they are installed, else a stand-in."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from veldt.errors import UsageError
from veldt.tracking.loggers.choice import LOGGERS, load_loggers, opened_loggers
from veldt.tracking.loggers.group import LoggerGroup

CONFIG = {"recipe": "ppo", "run": {"seed": 3, "until": None}, "network": {"hidden": [64, 64]}}
ROWS = [(10, {"train/loss": 0.5, "seconds": 1.0}), (20, {"train/loss": 0.25, "rollout/ep_return_mean": 7.0})]


@contextmanager
def opened(service: str, directory: Path) -> Iterator[LoggerGroup]:
    """The loggers of a run that logs to `service`; it must not report a problem."""
    notes: list[str] = []
    with opened_loggers(service, directory, "0123abcd", CONFIG, {}, (), notes.append) as loggers:
        yield loggers
    assert not notes


def log_twice(service: str, directory: Path) -> None:
    """Logs one row, then resumes and logs the other."""
    for step, metrics in ROWS:
        with opened(service, directory) as loggers:
            if step > 10:
                loggers.rewind(10)
            loggers.log(step, metrics)


@pytest.mark.parametrize("service", LOGGERS[1:])
def test_a_package_that_is_missing_is_named_with_the_command(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=rf"--log {service} needs .*: pip install 'veldt\[{service}\]'"):
        load_loggers(f"tensorboard,{service}")


class FakeRun:
    """What wandb.init returns."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told, self.rows, self.ended = told, list[dict[str, Any]](), False
        self.config, self.axes = {}, dict[str, Any]()

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def finish(self) -> None:
        self.ended = True


class FakeConfig(dict[str, Any]):
    def update(self, values: dict[str, Any], allow_val_change: bool) -> None:  # type: ignore[override]
        assert allow_val_change
        super().update(values)


def test_wandb_gets_one_run_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[FakeRun] = []

    def init(**told: Any) -> FakeRun:
        runs.append(FakeRun(told))
        runs[-1].config = FakeConfig()
        return runs[-1]

    def video(path: str, format: str) -> str:
        return f"{format} {path}"

    fake = SimpleNamespace(init=init, Settings=SimpleNamespace, Video=video)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    log_twice("wandb", tmp_path)
    first, again = runs
    assert first.told["id"] == again.told["id"] == "0123abcd"
    assert first.told["resume"] == "allow" and first.told["project"] == "veldt"
    assert first.rows + again.rows == [{"step": step} | metrics for step, metrics in ROWS]
    assert first.axes["*"] == "step" and first.config == CONFIG
    assert first.ended and again.ended
    with opened("wandb", tmp_path) as loggers:
        loggers.log_video(20, tmp_path / "a.mp4")
    assert runs[-1].rows == [{"step": 20, "video": f"mp4 {tmp_path / 'a.mp4'}"}]


def test_wandb_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    log_twice("wandb", tmp_path)
    kept = list((tmp_path / "wandb").glob("offline-run-*-0123abcd/*.wandb"))
    assert kept and b"rollout/ep_return_mean" in b"".join(path.read_bytes() for path in kept)


def test_mlflow_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    log_twice("mlflow", tmp_path)
    video = tmp_path / "a.mp4"
    video.touch()
    with opened("mlflow", tmp_path) as loggers:
        loggers.log_video(20, video)
        loggers.log(30, {"train/loss": math.nan})
    client = mlflow.tracking.MlflowClient()
    experiment = client.get_experiment_by_name("veldt")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == tmp_path.name and run.info.status == "FINISHED"
    assert run.data.params == {
        "recipe": "ppo",
        "run.seed": "3",
        "run.until": "null",
        "network.hidden": json.dumps([64, 64]),
    }
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(one.step, one.value) for one in history][:2] == [(10, 0.5), (20, 0.25)]
    assert [one.path for one in client.list_artifacts(run.info.run_id, "videos")] == ["videos/a.mp4"]


def test_trackio_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    log_twice("trackio", tmp_path)
    (run,) = Api().runs("veldt")
    assert run.name == f"{tmp_path.name}-0123abcd" and run.config["recipe"] == "ppo"
    rows = SQLiteStorage.get_logs("veldt", run.name)
    assert [(row["step"], row["train/loss"]) for row in rows] == [(10, 0.5), (20, 0.25)]
