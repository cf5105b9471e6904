"""Restarts a run whose learners are synchronised: when one is lost, all resume from the newest checkpoint.

They continue as a resumed run does, bit for bit on the CPU, without the user. Before the first checkpoint they begin
anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from veldt.errors import RoleError
from veldt.formatting import counted
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import newest_checkpoint
from veldt.systems.driver.outcome import Outcome, stop_on_signals
from veldt.systems.driver.training_run import RestartHistory, TrainingRun

# Errors in a row without a new checkpoint, after which a further restart would probably fail, too. Processes that were
# killed do not count once there is a checkpoint: nothing in the run is wrong, since it has trained. But they do where
# they were in the same step of the same episode each time, to which each restart comes again: the env kills them.
_MAX_FAILURES = 3

Begin = Callable[[Checkpoint | None, RestartHistory | None], TrainingRun]


@dataclass(frozen=True)
class RestartLimit:
    """The maximum number of restarts, and whether the user gave it: then no other limit of this file holds."""

    restarts: int
    is_given: bool


def run_restarting(
    begin: Begin, checkpoint: Checkpoint | None, directory: Path, limit: RestartLimit
) -> Outcome:
    """Runs what `begin` makes to its end, and restarts it up to the limit when a learner is lost.

    Raises:
        RoleError: a learner cannot be restarted, was lost too often, or has failed after a request to stop; a note says
            which limit has ended the run. One that was killed after the request is no error: the next run ends at once.
    """
    history: RestartHistory | None = None
    times = failures = 0
    moments: Counter[str] = Counter()  # in which processes have died since the newest checkpoint
    run = begin(checkpoint, history)
    # Until the end: a request between two runs ends the next one before it begins.
    with stop_on_signals() as stop:
        while True:
            try:
                return run.run(stop)
            except RoleError as error:
                newest, before = newest_checkpoint(directory), checkpoint.step if checkpoint else None
                if stop.is_set() and newest is None:
                    raise KeyboardInterrupt from error
                if stop.is_set() and newest is not None and error.details:
                    error.add_note(
                        f"The run was asked to stop; its newest checkpoint is of step {newest.step:,}"
                    )
                    raise
                if error.is_final:
                    raise
                if newest is not None and newest.step != before:
                    failures = 0
                    moments.clear()
                elif error.details or newest is None:
                    failures += 1
                moments[error.moment] += bool(error.moment)
                if note := _limit_reached(limit, times, failures, moments[error.moment]):
                    error.add_note(note)
                    raise
                checkpoint, times = newest, times + 1
                go_on = f"continue from the checkpoint of step {newest.step:,}" if newest else "begin anew"
                text = f"{error}; all learners {go_on}"
                history = RestartHistory(text, run.role_restarts + 1)
            run = begin(checkpoint, history)


def _limit_reached(limit: RestartLimit, times: int, failures: int, deaths: int) -> str | None:
    """Returns a sentence on the limit that forbids another restart, and how to raise it; None if there is none.

    `deaths` is how often processes have died in the step of the env in which the last one did.
    """
    if times == limit.restarts:
        return (
            f"It is not restarted again after {counted(times, 'restart', 'restarts')}: --max-restarts is {times}, and "
            "a larger one allows more"
        )
    if limit.is_given or max(failures, deaths) < _MAX_FAILURES:
        return None
    if deaths == _MAX_FAILURES:
        why = f"it died in that step of that episode {deaths} times, and no new checkpoint came in between"
    else:
        why = f"{failures} errors in a row came before a new checkpoint"
    return (
        f"It is not restarted again: {why}. --max-restarts, where you give it, is the only limit (here it is "
        f"{limit.restarts}, by default)"
    )
