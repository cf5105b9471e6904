"""Callbacks are called at the events of a run in every system, may stop it, and may add metrics."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veldt
from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.base import Loss
from veldt.algorithms.registry import ALGORITHMS, AlgorithmEntry
from veldt.errors import PluginError, UsageError
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.tracking.metrics import read_metrics

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "early_stopping.py"
SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "threads": 1,
    "precision": "fp32",
    "env_backend": "in-process",
    "device": "cpu",
    "log_every": 0.0,
    "quiet": True,
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "a2c": {**SETTINGS, "steps": 2000},
    "impala": {
        "env": "CartPole-v1",
        "quiet": True,
        "log_every": 0.1,
        "steps": 3000,
        "actors": 1,
        "num_envs": 4,
    },
}


class Counting(veldt.Callback):
    """Counts the calls, and remembers the steps of each."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.steps: list[int] = []
        self.evaluated: list[float] = []
        self.reason: str | None = "not ended"

    def _note(self, method: str, context: veldt.CallbackContext) -> None:
        self.calls[method] += 1
        self.steps.append(context.step)

    def on_start(self, context: veldt.CallbackContext) -> None:
        assert context.config["env"] == "CartPole-v1" and (context.directory / "config.json").exists()
        self._note("start", context)

    def on_rollout(self, context: veldt.CallbackContext) -> None:
        self._note("rollout", context)
        context.add_metrics({"rollouts": self.calls["rollout"]})

    def on_update(self, context: veldt.CallbackContext) -> None:
        self._note("update", context)

    def on_log(self, context: veldt.CallbackContext) -> None:
        assert context.metrics["time/steps_per_second"] >= 0
        self._note("log", context)

    def on_evaluation(self, context: veldt.CallbackContext) -> None:
        self._note("evaluation", context)
        self.evaluated.append(context.metrics["eval/ep_return_mean"])

    def on_checkpoint(self, context: veldt.CallbackContext) -> None:
        assert CheckpointStore(context.directory / "checkpoints").has_any()
        self._note("checkpoint", context)

    def on_end(self, context: veldt.CallbackContext) -> None:
        self._note("end", context)
        self.reason = context.reason


@pytest.mark.parametrize("recipe", SYSTEMS)
def test_every_event_is_called(recipe: str, tmp_path: Path) -> None:
    counting = Counting()
    settings = SYSTEMS[recipe] | {"checkpoint_every": 1000, "evaluate_every": 1000, "evaluate_steps": 1000}
    run = veldt.train(recipe, run_dir=tmp_path / "run", callbacks=[counting], **settings)
    rows = read_metrics(run.path)
    assert counting.calls["start"] == counting.calls["end"] == 1 and counting.reason == run.reason == "steps"
    assert counting.calls["log"] == len(rows)
    assert counting.calls["rollout"] >= 1 and counting.calls["update"] >= 1, (
        "several in one message of a role"
    )
    assert counting.calls["checkpoint"] >= 2, "one at the start and one at the end, at least"
    assert counting.calls["evaluation"] == len(counting.evaluated) >= 1
    assert counting.steps == sorted(counting.steps) and counting.steps[-1] == run.summary["steps"]
    assert any(row.get("callback/rollouts") for row in rows)


class StopAt(veldt.Callback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_rollout(self, context: veldt.CallbackContext) -> None:
        if context.step >= self._step:
            context.stop("far enough")


@pytest.mark.parametrize("recipe", SYSTEMS)
def test_a_callback_stops_a_run_that_can_be_resumed(recipe: str, tmp_path: Path) -> None:
    settings = SYSTEMS[recipe] | {"steps": 200_000}
    run = veldt.train(recipe, run_dir=tmp_path / "run", callbacks=[StopAt(1000)], **settings)
    assert run.reason == run.summary["reason"] == "callback" and 1000 <= run.summary["steps"] < 200_000
    (event,) = [one for one in RunDirectory.open(run.path).read_events() if one["kind"] == "callback"]
    assert event["text"] == "stopped by a callback: far enough"
    assert CheckpointStore(run.path / "checkpoints").newest(print).step == run.summary["steps"]
    counting, more = Counting(), run.summary["steps"] + 500
    again = veldt.resume(run.path, steps=more, quiet=True, callbacks=[counting])
    assert again.reason == "steps" and counting.steps[0] == run.summary["steps"]


class Failing(veldt.Callback):
    def on_log(self, context: veldt.CallbackContext) -> None:
        if context.step >= 1000:
            raise ZeroDivisionError("oh")


@pytest.mark.parametrize("recipe", SYSTEMS)
def test_an_exception_of_a_callback_ends_the_run_with_a_sentence(recipe: str, tmp_path: Path) -> None:
    counting = Counting()
    settings = SYSTEMS[recipe] | {"steps": 200_000, "checkpoint_every": 500}
    named = r"the callback Failing \(module test_callbacks\) raised in on_log: ZeroDivisionError: oh"
    with pytest.raises(PluginError, match=named) as failed:
        veldt.train(recipe, run_dir=tmp_path / "run", callbacks=[counting, Failing()], **settings)
    assert counting.calls["end"] == 1 and counting.reason is None
    assert "test_callbacks.py" in failed.value.details
    step = CheckpointStore(tmp_path / "run" / "checkpoints").newest(print).step
    assert veldt.resume(tmp_path / "run", steps=step + 500, quiet=True).reason == "steps"


class Exits(veldt.Callback):
    def on_log(self, context: veldt.CallbackContext) -> None:
        sys.exit(3)


def test_an_exit_in_a_callback_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    named = r"the callback Exits \(module test_callbacks\) raised in on_log: SystemExit: 3"
    with pytest.raises(PluginError, match=named):
        veldt.train("a2c", run_dir=tmp_path / "run", callbacks=[Exits()], **SYSTEMS["a2c"])


class AddsOwn(veldt.Callback):
    def on_log(self, context: veldt.CallbackContext) -> None:
        context.add_metrics({"train/loss": 0.0})


class Video(veldt.Callback):
    def on_end(self, context: veldt.CallbackContext) -> None:
        (context.directory / "a.mp4").touch()
        context.log_video(context.directory / "a.mp4")


class Videos(veldt.Logger):
    def __init__(self) -> None:
        self.got: list[tuple[int, Path]] = []

    def log_video(self, step: int, path: Path) -> None:
        self.got.append((step, path))


def test_a_callback_cannot_replace_a_metric_of_veldts(tmp_path: Path) -> None:
    said = "^the callback AddsOwn adds the metric train/loss, which veldt measures itself: rename it"
    with pytest.raises(UsageError, match=said):
        veldt.train("a2c", run_dir=tmp_path / "run", callbacks=[AddsOwn()], **SYSTEMS["a2c"])


class Surprised(A2C):
    """Logs a metric of its own."""

    def loss(self, forward: Any, batch: Any, progress: float) -> Loss:
        loss = super().loss(forward, batch, progress)
        return loss._replace(metrics=loss.metrics | {"train/surprise": loss.total.detach()})


class AddsSurprise(veldt.Callback):
    """Adds it with each rollout, before the row is made."""

    def on_rollout(self, context: veldt.CallbackContext) -> None:
        context.add_metrics({"train/surprise": 0.0})


def test_a_callback_cannot_replace_a_metric_of_a_plug_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = AlgorithmEntry(Surprised, A2CConfig)
    ALGORITHMS.find("a2c")
    monkeypatch.setitem(ALGORITHMS._parts, "a2c", entry)
    said = (
        "^the callback AddsSurprise adds the metric train/surprise, which is already in this row: rename it"
    )
    with pytest.raises(UsageError, match=said):
        veldt.train("a2c", run_dir=tmp_path / "run", callbacks=[AddsSurprise()], **SYSTEMS["a2c"])


@pytest.mark.parametrize("value", ["much", None, np.zeros(2)])
def test_a_metric_of_a_callback_is_a_number(value: Any, tmp_path: Path) -> None:
    def on_log(self: veldt.Callback, context: veldt.CallbackContext) -> None:
        context.add_metrics({"mine": value})

    said = "^the callback Adds adds the metric callback/mine as .*: it must be a number"
    with pytest.raises(UsageError, match=said):
        callbacks = [type("Adds", (veldt.Callback,), {"on_log": on_log})()]
        veldt.train("a2c", run_dir=tmp_path / "run", callbacks=callbacks, **SYSTEMS["a2c"])


class AddsNumber(veldt.Callback):
    def on_log(self, context: veldt.CallbackContext) -> None:
        context.add_metrics({"number": 1.0})
        context.add_metrics({"number": 2.0})


class AddsNumberToo(AddsNumber):
    """Another callback that adds the same metric."""


def test_a_callback_cannot_replace_a_metric_of_another_callback(tmp_path: Path) -> None:
    said = (
        "AddsNumberToo adds the metric callback/number, which the callback AddsNumber has added to this row"
    )
    with pytest.raises(UsageError, match=said):
        callbacks = [AddsNumber(), AddsNumberToo()]
        veldt.train("a2c", run_dir=tmp_path / "run", callbacks=callbacks, **SYSTEMS["a2c"])
    run = veldt.train("a2c", run_dir=tmp_path / "one", callbacks=[AddsNumber()], **SYSTEMS["a2c"])
    assert {row["callback/number"] for row in read_metrics(run.path)} == {2.0}


def test_videos_of_a_callback_reach_the_loggers(tmp_path: Path) -> None:
    videos = Videos()
    run = veldt.train(
        "a2c", run_dir=tmp_path / "run", callbacks=[Video()], loggers=[videos], **SYSTEMS["a2c"]
    )
    assert videos.got == [(run.summary["steps"], run.path / "a.mp4")]


def test_an_object_that_is_not_a_callback_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"inherit from veldt\.Callback"):
        veldt.train("a2c", run_dir=tmp_path / "run", callbacks=[print], **SYSTEMS["a2c"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no callback 'early'"):
        veldt.train("a2c", run_dir=tmp_path / "run", callback="early", **SYSTEMS["a2c"])
    assert not (tmp_path / "run").exists()


def test_a_callback_that_is_not_in_a_list_is_refused(tmp_path: Path) -> None:
    class Mine(veldt.Logger):
        """Does nothing."""

    settings: dict[str, Any] = {"run_dir": tmp_path / "run", **SYSTEMS["a2c"]}
    with pytest.raises(veldt.UsageError, match=r"give a list, callbacks=\[...\], also for a single one"):
        veldt.train("a2c", callbacks=StopAt(1), **settings)
    with pytest.raises(veldt.UsageError, match=r"give a list, loggers=\[...\], also for a single one"):
        veldt.train("a2c", loggers=Mine(), **settings)
    assert not (tmp_path / "run").exists()


def test_the_example_stops_a_run_and_can_be_named(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EXAMPLE.read_text() in (ROOT / "docs" / "extend" / "callbacks.md").read_text()
    stop = runpy.run_path(str(EXAMPLE))["StopWithoutProgress"](patience=600)
    settings = SYSTEMS["a2c"] | {"steps": 200_000, "learning_rate": 1e-9}
    run = veldt.train("a2c", run_dir="run", callbacks=[stop], **settings)
    assert run.reason == "callback" and run.summary["steps"] < 200_000
    assert read_metrics(run.path)[-1]["callback/steps_without_progress"] >= 600
    (in_tmp / "early_stopping.py").write_text(EXAMPLE.read_text())
    monkeypatch.delitem(sys.modules, "early_stopping", raising=False)
    named = veldt.train("a2c", run_dir="named", callback="early_stopping:make_callback", **SYSTEMS["a2c"])
    assert "callback/steps_without_progress" in read_metrics(named.path)[-1]
    assert veldt.resume(named.path, steps=2500, quiet=True).reason == "steps"
