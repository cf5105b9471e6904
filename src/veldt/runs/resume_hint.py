"""The hint how to resume a failed run."""

from __future__ import annotations

from pathlib import Path

from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory


def how_to_resume(path: Path) -> str:
    """Returns a sentence on how to resume the run in `path`; "" if it has no checkpoint."""
    if not CheckpointStore(RunDirectory(path).checkpoints).has_any():
        return ""
    return f"`veldt resume {path}` continues from the newest checkpoint"
