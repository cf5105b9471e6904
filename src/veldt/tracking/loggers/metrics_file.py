"""metrics.jsonl: one JSON object for each row of metrics, safe against kill -9.

Names and units are in docs/metrics.md. A value that is not finite is written as the string "NaN", "Infinity" or
"-Infinity" and read back as the float.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from veldt.formatting import as_float
from veldt.runs import strict_json
from veldt.runs.files import AppendFile, read_json_lines, write_atomically
from veldt.runs.own_names import METRICS
from veldt.tracking.loggers.logger import Logger


class MetricsFile(Logger):
    """The logger that every run has. Its methods raise VeldtError if the file cannot be written."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / METRICS
        self._open()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._file.append(strict_json.dumps({"step": step, **metrics}).encode() + b"\n")

    def rewind(self, step: int) -> None:
        """Removes the rows after `step`: they come from a process that was killed after its last checkpoint."""
        rows = read_json_lines(self._path)
        remaining = [row for row in rows if as_float(row.get("step", 0)) <= step]
        if len(remaining) == len(rows):
            return
        self._file.close()
        lines = b"".join(strict_json.dumps(row).encode() + b"\n" for row in remaining)
        write_atomically(self._path, lines, "the metrics")
        self._open()

    def close(self) -> None:
        """Closes the file; closing twice is allowed."""
        self._file.close()

    def _open(self) -> None:
        self._file = AppendFile(self._path, "the metrics")
        try:
            self._file.drop_torn_line()
        except BaseException:
            self._file.close()
            raise
