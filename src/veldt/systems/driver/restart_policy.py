"""A run whose learners stand or fall together: when one is lost, all go on from the newest checkpoint.

Just as a run that is resumed does, bit for bit on the CPU, and without anybody's help.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from veldt.errors import RoleError
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.latest_checkpoint import newest_checkpoint
from veldt.systems.driver.distributed_run import DistributedRun, RestartHistory
from veldt.systems.driver.outcome import Outcome

_IN_VAIN = 3  # losses in a row without a new checkpoint: the next would come, too

Begin = Callable[[Checkpoint | None, RestartHistory | None], DistributedRun]


def run_restarting(begin: Begin, checkpoint: Checkpoint | None, directory: Path, restarts: int) -> Outcome:
    """Runs what `begin` makes to its end, and goes on up to `restarts` times when a learner is lost.

    Raises:
        RoleError: one was lost for good, or too often.
    """
    lost: RestartHistory | None = None
    times = in_vain = 0
    while True:
        run = begin(checkpoint, lost)
        try:
            return run.run()
        except RoleError as error:
            if run.is_asked_to_stop:
                raise
            newest, before = newest_checkpoint(directory), checkpoint.step if checkpoint else None
            if newest is None or error.is_final or times == restarts:
                raise
            in_vain = in_vain + 1 if newest.step == before else 0
            if in_vain == _IN_VAIN:
                raise
            checkpoint, times = newest, times + 1
            text = f"{error}; all learners go on from the checkpoint of step {newest.step:,}"
            lost = RestartHistory(text, run.role_restarts + 1)
