"""How far the run of a training is: whether it has ended, and the command that does what is left of it."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

from veldt.errors import VeldtError
from veldt.experiments.experiment import Training
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.own_files import refuse_other, remove_own_tree
from veldt.runs.own_names import OF_RUN


def has_ended(run: Path) -> bool:
    """Returns whether the run in this directory has come to its end."""
    directory, summary = RunDirectory(run), None
    with contextlib.suppress(VeldtError):  # a damaged one: resuming says what is wrong
        summary = directory.read_summary() if run.exists() else None
    return summary is not None and summary.get("reason") not in (None, "interrupted")


def steps_left(training: Training, run: Path) -> int:
    """Returns the steps that a training which has not ended still makes: from its newest checkpoint on."""
    done = 0
    with contextlib.suppress(VeldtError):  # unreadable checkpoints: resuming says what is wrong
        done = CheckpointStore(RunDirectory(run).checkpoints).newest_step()
    return max(0, int(training.settings["steps"]) - done)


def command_for_rest(training: Training, run: Path) -> list[str]:
    """Returns the command that does what is left of a training. VeldtError if its directory does not allow it."""
    if not run.is_dir():
        refuse_other(run, stat.S_IFDIR)
        return training.command(run)
    if RunDirectory(run).is_locked():
        raise VeldtError(f"{run} is still being trained by another process: wait for it, or end it")
    if CheckpointStore(RunDirectory(run).checkpoints).has_any():
        return training.resume_command(run)
    remove_own_tree(run, OF_RUN)  # it was killed before its first checkpoint
    return training.command(run)
