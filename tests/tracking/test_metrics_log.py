"""Metrics survive kill -9 and a full disk, and a resume takes back what was written after the checkpoint."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from veldt.errors import VeldtError
from veldt.tracking.loggers.background import BackgroundLogger
from veldt.tracking.loggers.choice import opened_loggers
from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.loggers.logger import Logger
from veldt.tracking.loggers.metrics_file import MetricsFile
from veldt.tracking.loggers.tensorboard_logger import TensorBoardLogger
from veldt.tracking.metrics import read_metrics

KILLED = """
import os, signal, sys
from pathlib import Path
from veldt.tracking.loggers.group import LoggerGroup
loggers = LoggerGroup(Path(sys.argv[1]))
for step in range(100):
    loggers.log(step, {"train/loss": 0.5})
os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def tensorboard(directory: Path, notes: list[str] | None = None) -> Iterator[LoggerGroup]:
    """The loggers of a run with the default --log."""
    notes = [] if notes is None else notes
    with opened_loggers("tensorboard", directory, "id", {"env": "mine"}, {}, (), notes.append) as loggers:
        yield loggers


def write_rows(directory: Path, steps: list[int], resume_step: int | None = None) -> None:
    with tensorboard(directory) as loggers:
        if resume_step is not None:
            loggers.rewind(resume_step)
        for step in steps:
            loggers.log(step, {"rollout/interval_return_mean": float(step)})


def scalars(directory: Path, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(directory / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_rows_come_back_and_tensorboard_has_them(tmp_path: Path) -> None:
    write_rows(tmp_path, [10, 20, 30])
    assert read_metrics(tmp_path)[1] == {"step": 20, "rollout/interval_return_mean": 20.0}
    assert scalars(tmp_path, "rollout/interval_return_mean") == [(10, 10.0), (20, 20.0), (30, 30.0)]


def test_values_that_are_not_finite_are_strict_json(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.log(1, {"a": math.nan, "b": math.inf, "c": -math.inf, "d": np.float32(0.5), "e": np.int64(3)})
    file.close()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    line = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse)
    assert line == {"step": 1, "a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 0.5, "e": 3}
    row = read_metrics(tmp_path)[0]
    assert math.isnan(row["a"])
    assert (row["b"], row["c"]) == (math.inf, -math.inf)


def test_no_file_reads_as_no_rows(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "absent") == []


def test_kill_9_loses_no_row(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False).returncode == -9
    assert [row["step"] for row in read_metrics(tmp_path)] == list(range(100))


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_torn_last_line_is_left_out_and_not_written_onto(tmp_path: Path, cut: int) -> None:
    write_rows(tmp_path, [10, 20])
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        path.read_bytes()[:-1] + b'\n{"step": 30, "rollout/interval_return_mean": 30.0, "x": 1}'[:cut]
    )
    assert [row["step"] for row in read_metrics(tmp_path)] == [10, 20]
    write_rows(tmp_path, [40])
    assert [row["step"] for row in read_metrics(tmp_path)] == [10, 20, 40]


def test_a_resume_removes_rows_after_the_checkpoint(tmp_path: Path) -> None:
    write_rows(tmp_path, [10, 20, 30, 40])
    write_rows(tmp_path, [25, 35], resume_step=20)
    assert [row["step"] for row in read_metrics(tmp_path)] == [10, 20, 25, 35]
    # TensorBoard hides what its first file says beyond step 20.
    assert [step for step, _ in scalars(tmp_path, "rollout/interval_return_mean")] == [10, 20, 25, 35]


def test_a_full_disk_is_explained_and_tears_no_line(
    small_disk: Callable[[int], AbstractContextManager[Path]],
) -> None:
    with small_disk(65536) as place:
        file = MetricsFile(place)
        written = 0
        with pytest.raises(
            VeldtError, match=r"cannot write the metrics to .*metrics\.jsonl: the disk is full"
        ):
            for written in range(10_000):
                file.log(written, {f"train/{'x' * 100}": 1.0})
        file.close()
        rows = read_metrics(place)
        assert [row["step"] for row in rows] == list(range(written))
        assert (place / "metrics.jsonl").read_bytes().endswith(b"}\n")


def test_without_tensorboard_there_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    notes: list[str] = []
    with tensorboard(tmp_path, notes) as loggers:
        for step in range(3):
            loggers.log(step, {})
            time.sleep(0.02)
    assert notes == ["tensorboard is not installed: the metrics are in metrics.jsonl only"]
    assert len(read_metrics(tmp_path)) == 3


class Slow(Logger):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        time.sleep(1)


def test_a_slow_logger_neither_blocks_nor_hangs() -> None:
    logger = BackgroundLogger("slow", Slow, close_s=0.1)
    start = time.monotonic()
    for step in range(5000):
        logger.log(step, {"a": 1.0})
    assert "could not keep up" in logger.problem
    logger.close()
    assert "was not done in 0.1 s" in logger.problem
    assert time.monotonic() - start < 0.9


def test_a_logger_that_has_failed_is_closed_once_and_its_first_failure_is_told() -> None:
    closed = []

    class Broken(Logger):
        def log(self, step: int, metrics: Mapping[str, float]) -> None:
            raise RuntimeError("the server is gone")

        def close(self) -> None:
            closed.append(1)
            raise RuntimeError("not connected")

    logger = BackgroundLogger("broken", Broken, close_s=5.0)
    for step in range(3):
        logger.log(step, {"a": 1.0})
    logger.close()
    assert closed == [1]
    assert logger.problem == "broken failed: the server is gone; later metrics are in metrics.jsonl only"


def test_a_disk_that_is_full_at_the_very_end_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: TensorBoardLogger) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TensorBoardLogger, "close", fails)
    logger = BackgroundLogger("tensorboard", lambda: TensorBoardLogger(tmp_path), close_s=5.0)
    start = time.monotonic()
    logger.close()
    assert time.monotonic() - start < 1
    assert "No space left on device" in logger.problem


def test_tensorboard_shows_the_settings(tmp_path: Path) -> None:
    write_rows(tmp_path, [10])
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    (shown,) = events.Tensors("config")
    assert shown.tensor_proto.string_val[0].decode() == '    {\n      "env": "mine"\n    }'


@pytest.mark.parametrize("step", ["x", [], {}, None])
def test_rows_without_a_step_are_no_obstacle_to_a_resume(step: object, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(
        "".join(json.dumps({"step": each}) + "\n" for each in (1, step, 3))
    )
    with contextlib.closing(MetricsFile(tmp_path)) as file:
        file.rewind(2)
    assert read_metrics(tmp_path) == [{"step": 1}]
