"""The hint how to resume a failed run."""

from __future__ import annotations

from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory


def how_to_resume(directory: RunDirectory) -> str:
    """Returns a sentence on how to resume the run in `directory`; "" if it has no checkpoint."""
    store = CheckpointStore(directory.checkpoints)
    if not store.has_any():
        return ""
    return f"`veldt resume {directory.path}` continues from the checkpoint of step {store.newest_step():,}"
