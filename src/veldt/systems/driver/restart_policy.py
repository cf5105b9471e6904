"""Restarts a run whose learners are synchronised: when one is lost, all resume from the newest checkpoint.

They continue as a resumed run does, bit for bit on the CPU, without the user.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from veldt.errors import RoleError
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import newest_checkpoint
from veldt.systems.driver.outcome import Outcome
from veldt.systems.driver.training_run import RestartHistory, TrainingRun

_MAX_FAILURES = 3  # failures in a row without a new checkpoint: a further restart would fail, too

Begin = Callable[[Checkpoint | None, RestartHistory | None], TrainingRun]


def run_restarting(begin: Begin, checkpoint: Checkpoint | None, directory: Path, restarts: int) -> Outcome:
    """Runs what `begin` makes to its end, and restarts it up to `restarts` times when a learner is lost.

    Raises:
        RoleError: a learner cannot be restarted, or was lost too often.
    """
    history: RestartHistory | None = None
    times = failures = 0
    while True:
        run = begin(checkpoint, history)
        try:
            return run.run()
        except RoleError as error:
            if run.is_asked_to_stop:
                raise
            newest, before = newest_checkpoint(directory), checkpoint.step if checkpoint else None
            if newest is None or error.is_final or times == restarts:
                raise
            failures = failures + 1 if newest.step == before else 0
            if failures == _MAX_FAILURES:
                raise
            checkpoint, times = newest, times + 1
            text = f"{error}; all learners go on from the checkpoint of step {newest.step:,}"
            history = RestartHistory(text, run.role_restarts + 1)
