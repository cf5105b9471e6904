"""Runs the jobs of an experiment side by side, as far as the cores and the memory allow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from veldt.errors import VeldtError
from veldt.experiments.experiment import Job, Training, needed_by
from veldt.experiments.planning.memory import ENOUGH, Memory
from veldt.experiments.side_by_side import EndedCommand, SideBySide
from veldt.experiments.workspace import Workspace
from veldt.runs.files import says_full

_POLL_S = 0.2


@dataclass
class JobProgress:
    """What has become of the jobs: when each running one was started, and the sentence of each that failed."""

    waiting: list[Job]
    started: dict[Job, float] = field(default_factory=dict)
    done: list[Job] = field(default_factory=list)
    failed: dict[Job, str] = field(default_factory=dict)
    is_over_budget: bool = False


class Scheduler:
    """Runs jobs, each in a process of its own and on cores of its own. A job that fails does not end the others,
    except those that need it.

    Args:
        show: called whenever something has changed, and several times a second.
        budget_s: after as many seconds, no further job is started.
        memory: what the jobs need of it.
    """

    def __init__(
        self,
        workspace: Workspace,
        jobs: Sequence[Job],
        show: Callable[[JobProgress], None],
        budget_s: float,
        memory: Memory = ENOUGH,
    ) -> None:
        self._workspace, self._show, self._memory = workspace, show, memory
        done = [job for job in jobs if workspace.is_done(job)]
        self.progress = JobProgress([job for job in jobs if job not in done], done=done)
        self._until = time.monotonic() + budget_s
        self._running = SideBySide[Job]()

    def run(self) -> JobProgress:
        """Runs all jobs that have no result yet.

        Raises:
            VeldtError: the disk is full, where the next job would fail too; after all running ones have ended.
            KeyboardInterrupt: after all running ones have ended.
        """
        try:
            while self.progress.waiting or not self._running.is_idle:
                self._start_what_fits()
                if self._running.is_idle:
                    break
                self._show(self.progress)
                time.sleep(_POLL_S)
                self._collect()
        except BaseException:
            self._running.interrupt_all()
            raise
        self._show(self.progress)
        return self.progress

    def _start_what_fits(self) -> None:
        self.progress.is_over_budget = time.monotonic() > self._until
        while not self.progress.is_over_budget and (job := self._next()) is not None:
            if not self._running.fits(job.cores) or not self._memory.fits(job, self.progress.started):
                return
            self.progress.waiting.remove(job)
            try:
                command = self._workspace.command(job)
            except VeldtError as error:
                self._fail(job, str(error))
                continue
            self._running.start(job, command, job.cores)
            self.progress.started[job] = time.monotonic()

    def _fail(self, job: Job, why: str) -> None:
        """Counts a job as failed, and with it each that needs it."""
        self.progress.failed[job] = why
        for one in [one for one in self.progress.waiting if needed_by(one) is job]:
            self.progress.waiting.remove(one)
            self.progress.failed[one] = f"the run {job.name}, which it evaluates, has failed"

    def _next(self) -> Job | None:
        """Returns the first job that need not wait for a training; None if there is none."""
        done = {None, *self.progress.done}
        return next((job for job in self.progress.waiting if needed_by(job) in done), None)

    def _collect(self) -> None:
        for ended in self._running.ended():
            del self.progress.started[ended.key]
            try:
                self._check(ended)
                self.progress.done.append(ended.key)
            except VeldtError as error:
                _refuse_full_disk(ended.key, str(error))
                self._fail(ended.key, str(error))

    def _check(self, ended: EndedCommand[Job]) -> None:
        """Keeps what a job that is no training has printed. VeldtError if the job has failed."""
        if ended.code != 0:
            raise VeldtError(ended.sentence or f"exited with code {ended.code}")
        if not isinstance(ended.key, Training):
            self._workspace.keep(ended.key, ended.printed)
        elif not self._workspace.is_done(ended.key):
            raise VeldtError("ended before its steps were done")


def _refuse_full_disk(job: Job, why: str) -> None:
    if says_full(why):
        cause = why.partition("; make room")[0]
        raise VeldtError(f"{job.name} was stopped: {cause}; make room, and the same command continues")
