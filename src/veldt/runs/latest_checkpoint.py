"""Finds the checkpoint from which a role that starts during a run continues."""

from __future__ import annotations

import platform
from pathlib import Path

from veldt.errors import VeldtError
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory


def newest_checkpoint(run: Path) -> Checkpoint | None:
    """Returns the newest whole checkpoint of the run in this directory; None if there is none yet.

    VeldtError if the directory does not exist: else a role on another node would silently begin from scratch.
    """
    if not run.is_dir():
        raise VeldtError(
            f"the run's directory {run} is not there on {platform.node()}: roles read checkpoints there, so it must be "
            "on storage that all nodes share, under the same path"
        )
    store = CheckpointStore(RunDirectory(run).checkpoints)
    return store.newest(lambda _: None) if store.has_any() else None
