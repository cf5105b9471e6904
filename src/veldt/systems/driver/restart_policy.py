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

# Errors in a row without a new checkpoint, after which a further restart would fail, too. Processes that were killed do
# not count: nothing in the run is wrong.
_MAX_FAILURES = 3

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
            if newest.step != before:
                failures = 0
            elif error.details:
                failures += 1
            if failures == _MAX_FAILURES:
                error.add_note(
                    f"It is not restarted again, whatever --max-restarts: {failures} restarts in a row have ended so "
                    "before a new checkpoint"
                )
                raise
            checkpoint, times = newest, times + 1
            text = f"{error}; all learners continue from the checkpoint of step {newest.step:,}"
            history = RestartHistory(text, run.role_restarts + 1)
