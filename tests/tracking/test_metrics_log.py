"""Metrics survive kill -9 and a full disk, and a resume takes back what was written after the checkpoint."""

from __future__ import annotations

import errno
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from veldt.errors import VeldtError
from veldt.tracking.metrics import MetricsLog, read_metrics
from veldt.tracking.tensorboard_file import EventFile

KILLED = """
import os, signal, sys
from pathlib import Path
from veldt.tracking.metrics import MetricsLog
log = MetricsLog(Path(sys.argv[1]))
for step in range(100):
    log.append({"step": step, "train/loss": 0.5})
os.kill(os.getpid(), signal.SIGKILL)
"""


def write_rows(directory: Path, steps: list[int], resume_step: int | None = None) -> None:
    log = MetricsLog(directory, resume_step)
    for step in steps:
        log.append(
            {"step": step, "rollout/interval_return_mean": float(step), "note": "text", "absent": None}
        )
    log.close()


def scalars(directory: Path, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(directory / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_rows_come_back_and_tensorboard_has_them(tmp_path: Path) -> None:
    write_rows(tmp_path, [10, 20, 30])
    assert read_metrics(tmp_path)[1] == {
        "step": 20,
        "rollout/interval_return_mean": 20.0,
        "note": "text",
        "absent": None,
    }
    assert scalars(tmp_path, "rollout/interval_return_mean") == [(10, 10.0), (20, 20.0), (30, 30.0)]


def test_values_that_are_not_finite_are_strict_json(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.append(
        {"step": 1, "a": math.nan, "b": math.inf, "c": -math.inf, "d": np.float32(0.5), "e": np.int64(3)}
    )
    log.close()

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


def test_a_resume_takes_back_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    write_rows(tmp_path, [10, 20, 30, 40])
    write_rows(tmp_path, [25, 35], resume_step=20)
    assert [row["step"] for row in read_metrics(tmp_path)] == [10, 20, 25, 35]
    # TensorBoard hides what its first file says beyond step 20.
    assert [step for step, _ in scalars(tmp_path, "rollout/interval_return_mean")] == [10, 20, 25, 35]


def test_a_full_disk_is_explained_and_tears_no_line(
    small_disk: Callable[[int], AbstractContextManager[Path]],
) -> None:
    with small_disk(65536) as place:
        log = MetricsLog(place)
        written = 0
        with pytest.raises(
            VeldtError, match=r"cannot write the metrics to .*metrics\.jsonl: the disk is full"
        ):
            for written in range(10_000):
                log.append({"step": written, "text": "x" * 100})
        log.close()
        rows = read_metrics(place)
        assert [row["step"] for row in rows] == list(range(written))
        assert (place / "metrics.jsonl").read_bytes().endswith(b"}\n")


def test_without_tensorboard_there_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    warnings: list[str] = []
    log = MetricsLog(tmp_path, on_warning=warnings.append)
    for step in range(3):
        log.append({"step": step})
        time.sleep(0.02)
    log.close()
    assert warnings == ["tensorboard is not installed: the metrics are in metrics.jsonl only"]
    assert len(read_metrics(tmp_path)) == 3


def test_a_slow_tensorboard_neither_blocks_nor_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventFile, "_write_rows", lambda self: time.sleep(1))
    events = EventFile(tmp_path)
    start = time.monotonic()
    for step in range(5000):
        events.add(step, {"a": 1.0})
    assert "could not keep up" in events.problem
    events.close(deadline=0.1)
    assert "not all written" in events.problem
    assert time.monotonic() - start < 0.9


def test_a_disk_that_is_full_at_the_very_end_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_on_closing_its_file(self: EventFile) -> None:
        while self._next() is not None:
            pass
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(EventFile, "_write_rows", fails_on_closing_its_file)
    events = EventFile(tmp_path)
    start = time.monotonic()
    events.close()
    assert time.monotonic() - start < 1
    assert "No space left on device" in events.problem
