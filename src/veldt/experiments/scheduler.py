"""Runs the jobs of an experiment side by side, as far as the cores allow."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO

from veldt.errors import VeldtError
from veldt.experiments.experiment import Job, Measurement
from veldt.experiments.owned_process import OwnedProcess
from veldt.experiments.workspace import Workspace
from veldt.runtime.cores import allowed_cores

_LOOK_S = 0.2
_INTERRUPT_S = 60.0  # in which an interrupted run writes its checkpoint
_SAID = 2_000  # bytes


@dataclass
class Progress:
    """What has become of the jobs: when each running one was started, and the sentence of each that failed."""

    waiting: list[Job]
    started: dict[Job, float] = field(default_factory=dict)
    done: list[Job] = field(default_factory=list)
    failed: dict[Job, str] = field(default_factory=dict)
    is_over_budget: bool = False


@dataclass
class _Running:
    job: Job
    process: OwnedProcess
    cores: list[int]
    out: IO[bytes]
    said: IO[bytes]


class Scheduler:
    """Runs jobs, each in a process of its own and on cores of its own. A job that fails does not end the others.

    Args:
        show: called whenever something has changed, and several times a second.
        budget_s: after as many seconds, no further job is started.
    """

    def __init__(
        self, workspace: Workspace, jobs: Sequence[Job], show: Callable[[Progress], None], budget_s: float
    ) -> None:
        self._workspace, self._show = workspace, show
        done = [job for job in jobs if workspace.is_done(job)]
        self.progress = Progress([job for job in jobs if job not in done], done=done)
        self._free = allowed_cores()
        self._all = len(self._free)
        self._until = time.monotonic() + budget_s
        self._running: list[_Running] = []

    def run(self) -> Progress:
        """Runs all jobs that have no result yet. KeyboardInterrupt after all running ones have ended."""
        try:
            while self._running or self.progress.waiting:
                self._start_what_fits()
                if not self._running:
                    break
                self._show(self.progress)
                time.sleep(_LOOK_S)
                self._collect()
        except BaseException:
            self._interrupt()
            raise
        self._show(self.progress)
        return self.progress

    def _start_what_fits(self) -> None:
        self.progress.is_over_budget = time.monotonic() > self._until
        while self.progress.waiting and not self.progress.is_over_budget:
            job = self.progress.waiting[0]
            wanted = min(job.cores or self._all, self._all)
            if wanted > len(self._free):
                return
            self.progress.waiting.pop(0)
            try:
                command = self._workspace.command(job)
            except VeldtError as error:
                self.progress.failed[job] = str(error)
                continue
            cores, self._free = self._free[:wanted], self._free[wanted:]
            out = tempfile.TemporaryFile()  # noqa: SIM115 # closed by _collect
            said = tempfile.TemporaryFile()  # noqa: SIM115
            self._running.append(_Running(job, OwnedProcess(command, out, said, cores), cores, out, said))
            self.progress.started[job] = time.monotonic()

    def _collect(self) -> None:
        for one in [one for one in self._running if one.process.poll() is not None]:
            self._running.remove(one)
            self._free = sorted([*self._free, *one.cores])
            del self.progress.started[one.job]
            try:
                self._check(one)
                self.progress.done.append(one.job)
            except VeldtError as error:
                self.progress.failed[one.job] = str(error)
            finally:
                for part in (one.process, one.out, one.said):
                    part.close()

    def _check(self, one: _Running) -> None:
        """Keeps a measurement's result. VeldtError if the job has failed."""
        if (code := one.process.poll()) != 0:
            raise VeldtError(last_sentence(one.said) or f"exited with code {code}")
        if isinstance(one.job, Measurement):
            one.out.seek(0)
            self._workspace.keep(one.job, one.out.read().decode(errors="replace"))
        elif not self._workspace.is_done(one.job):
            raise VeldtError("ended before its steps were done")

    def _interrupt(self) -> None:
        for one in self._running:
            one.process.interrupt()
        until = time.monotonic() + _INTERRUPT_S
        for one in self._running:
            one.process.wait(until - time.monotonic())


def last_sentence(said: IO[bytes]) -> str:
    """Returns what a failed command has said: its line that begins with `veldt: `, else its last line."""
    said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID))
    lines = [line.strip() for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    ours = [line.removeprefix("veldt: ") for line in lines if line.startswith("veldt: ")]
    return (ours or lines or [""])[-1]
