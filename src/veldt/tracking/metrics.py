"""The metrics of a run: one JSON object per interval, safe against kill -9, and the same scalars for TensorBoard.

Keys and units are in docs/metrics.md. A value that is not finite is written as the string "NaN", "Infinity" or
"-Infinity" and read back as the float; null means "not measured in this interval".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from veldt.runs import strict_json
from veldt.runs.files import AppendFile, read_json_lines, write_atomically
from veldt.runs.own_names import METRICS, TENSORBOARD
from veldt.tracking.tensorboard_file import EventFile


class MetricsLog:
    """Writes `directory/metrics.jsonl` and the TensorBoard events under `directory/tensorboard/`.

    With `resume_step`, rows after that step are removed first: they come from a process that was killed after its last
    checkpoint, and training will write these steps again. `on_warning` is called with a message if TensorBoard's events
    cannot be written; training continues.
    """

    def __init__(
        self,
        directory: Path,
        resume_step: int | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._on_warning = on_warning
        if resume_step is not None:
            _remove_beyond(directory / METRICS, resume_step)
        self._file = AppendFile(directory / METRICS, "the metrics")
        self._file.drop_torn_line()
        purge_step = None if resume_step is None else resume_step + 1
        self._events = EventFile(directory / TENSORBOARD, purge_step)

    def append(self, row: Mapping[str, float | int | str | None]) -> None:
        """Writes one row; `row["step"]` (agent steps) is its x coordinate. Raises VeldtError if the write fails."""
        step = int(row["step"] or 0)
        self._file.append(strict_json.dumps(row).encode() + b"\n")
        scalars = {
            key: float(value)
            for key, value in row.items()
            if value is not None and not isinstance(value, str)
        }
        self._events.add(step, scalars)
        self._warn_once()

    def close(self) -> None:
        """Finishes both files; waits a few seconds at most for TensorBoard's. Closing twice is allowed."""
        self._file.close()
        self._events.close()
        self._warn_once()

    def _warn_once(self) -> None:
        if self._events.problem and self._on_warning is not None:
            self._on_warning(self._events.problem)
            self._on_warning = None


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Returns the rows of the run in `directory`, oldest first, without an incomplete last line; [] without a file."""
    return read_json_lines(directory / METRICS)


def _remove_beyond(path: Path, step: int) -> None:
    rows = read_json_lines(path)
    remaining = [row for row in rows if row.get("step", 0) <= step]
    if len(remaining) < len(rows):
        write_atomically(
            path, b"".join(strict_json.dumps(row).encode() + b"\n" for row in remaining), "the metrics"
        )
