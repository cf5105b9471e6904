"""What a run has written, as rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from veldt.tracking.metric_names import METRICS


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSON-lines file, without one that is just being written; none of one that is not there."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def metrics(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics, whose names are all in the dictionary."""
    found = rows(run / "metrics.jsonl")
    assert not {name for row in found for name in row} - METRICS.keys()
    return found


def learning(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics in whose time something was learned."""
    return [row for row in metrics(run) if "train/loss" in row]


def episodes(run: Path) -> list[dict[str, Any]]:
    return rows(run / "episodes.jsonl")


def events(run: Path, kind: str) -> list[str]:
    return [event["text"] for event in rows(run / "events.jsonl") if event["kind"] == kind]
