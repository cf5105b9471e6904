"""What a role that begins in mid-run goes on from."""

from __future__ import annotations

from pathlib import Path

from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory


def newest_checkpoint(run: Path) -> Checkpoint | None:
    """The newest whole checkpoint of the run in this directory; None before there is one."""
    store = CheckpointStore(RunDirectory(run).checkpoints)
    return store.newest(lambda _: None) if store.has_any() else None
