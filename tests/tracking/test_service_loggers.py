"""Weights & Biases, trackio and MLflow: offline against the packages where they are installed, else a stand-in."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

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
        self.told, self.rows, self.is_last = told, list[dict[str, Any]](), False
        self.config, self.axes = {}, dict[str, Any]()

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def finish(self) -> None:
        self.is_last = True


class FakeConfig(dict[str, Any]):
    def update(self, values: dict[str, Any], allow_val_change: bool) -> None:  # type: ignore[override]
        assert allow_val_change
        super().update(values)


def test_wandb_continues_the_same_run_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert first.is_last and again.is_last
    with opened("wandb", tmp_path) as loggers:
        loggers.log_video(20, tmp_path / "a.mp4")
    assert runs[-1].rows == [{"step": 20, "video": f"mp4 {tmp_path / 'a.mp4'}"}]


class FakeClient:
    """mlflow's client, with the runs of all clients."""

    runs: ClassVar[list[SimpleNamespace]] = []

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        assert name == "veldt"
        return SimpleNamespace(experiment_id="1") if self.runs else None

    def create_experiment(self, name: str) -> str:
        return "1"

    def search_runs(self, experiments: list[str], query: str, max_results: int) -> list[SimpleNamespace]:
        assert experiments == ["1"] and max_results == 1
        return [run for run in self.runs if query == f"tags.`veldt.run_id` = '{run.tags['veldt.run_id']}'"]

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> SimpleNamespace:
        data, info = SimpleNamespace(params={}), SimpleNamespace(run_id="7", run_name=run_name)
        self.runs.append(SimpleNamespace(tags=tags, data=data, info=info, metrics=[], status=""))
        return self.runs[-1]

    def update_run(self, run_id: str, status: str) -> None:
        self.runs[0].status = status

    def log_batch(self, run_id: str, metrics: Any = (), params: Any = ()) -> None:
        run = self.runs[0]
        run.metrics += [(name, value, step) for name, value, _, step in metrics]
        assert not run.data.params.keys() & {name for name, _ in params}, "a parameter cannot change"
        run.data.params |= dict(params)

    def set_terminated(self, run_id: str) -> None:
        self.runs[0].status = "FINISHED"


def test_mlflow_continues_the_same_run_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeClient, "runs", [])
    kinds = SimpleNamespace(Metric=lambda *values: values, Param=lambda *values: values)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "mlflow.entities", kinds)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", SimpleNamespace(MlflowClient=FakeClient))
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    log_twice("mlflow", tmp_path)
    (run,) = FakeClient.runs
    assert run.metrics == [(name, value, step) for step, row in ROWS for name, value in row.items()]
    assert run.data.params["network.hidden"] == "[64, 64]" and run.status == "FINISHED"


def test_trackio_continues_the_same_run_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    rows: list[tuple[int, dict[str, float]]] = []

    def init(**values: Any) -> SimpleNamespace:
        told.append(values)
        return SimpleNamespace(log=lambda row, step: rows.append((step, row)), finish=lambda: told.append({}))

    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace(init=init))
    log_twice("trackio", tmp_path)
    first, ended, again, _ = told
    assert first == again and first["resume"] == "allow" and first["name"] == f"{tmp_path.name}-0123abcd"
    assert not ended and rows == ROWS


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
