"""Reads the metrics of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veldt.runs.files import read_json_lines
from veldt.runs.own_names import METRICS


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Returns the rows of the run in `directory`, oldest first, without an incomplete last line; [] without a file."""
    return read_json_lines(directory / METRICS)
