"""The directory of an experiment: what was asked, its runs and measurements, and which of them are done."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from veldt.errors import UsageError, VeldtError
from veldt.experiments.experiment import Experiment, Job, Measurement, Request, Training
from veldt.experiments.results import FinishedRun, Measured, Results
from veldt.runs import strict_json
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.files import explained, read_file, write_atomically
from veldt.runs.own_files import remove_own_tree
from veldt.runs.own_names import OF_RUN

_ASKED, _LOCK, _SPEEDS = "experiment.json", "lock", "speeds.json"
_BEFORE = {_LOCK, _SPEEDS, "probe"}  # what a plan alone leaves


class Workspace:
    """The directory `root` of an experiment.

    experiment.json   the experiment's name and request, with which alone it can be continued
    runs/NAME         a run directory for each training
    measured/NAME.json  what each measurement has printed
    speeds.json       steps per second that were measured for the estimate
    """

    def __init__(self, root: Path, experiment: Experiment, request: Request) -> None:
        self.root, self._experiment, self.request = root, experiment, request
        self.speeds_path = root / _SPEEDS

    def open(self) -> None:
        """Makes the directory, or continues one, and locks it until this process ends.

        Raises:
            UsageError: it is of another experiment or request, has files of the user's, or another process works in it.
        """
        with explained("the experiment's directory", self.root):
            if self.root.exists() and not self.root.is_dir():
                raise UsageError(f"--out {self.root} is a file: name a new directory")
            self.root.mkdir(parents=True, exist_ok=True)
        if not (self.root / _ASKED).exists() and (
            foreign := sorted({p.name for p in self.root.iterdir()} - _BEFORE)
        ):
            raise UsageError(
                f"--out {self.root} has files ({foreign[0]}) and is no experiment: name a new directory for this one"
            )
        self._lock = (self.root / _LOCK).open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another veldt experiment works in {self.root}: wait for it, or name another directory"
            ) from None
        if (self.root / _ASKED).exists():
            self._check_asked()

    def close(self) -> None:
        """Unlocks the directory."""
        self._lock.close()

    def begin(self) -> None:
        """Notes what is asked, with which alone the experiment can be continued from now on."""
        path = self.root / _ASKED
        if not path.exists():
            write_atomically(
                path, strict_json.dumps(self._asked(), indent=1).encode(), "the experiment's settings"
            )

    def _asked(self) -> dict[str, Any]:
        asked = {"experiment": self._experiment.name, **dataclasses.asdict(self.request)}
        asked["games"] = list(self.request.games)
        return asked

    def _check_asked(self) -> None:
        before = self.read_json(self.root / _ASKED)
        for name, value in self._asked().items():
            if before.get(name) != value:
                shown = "the experiment" if name == "experiment" else f"--{name}"
                raise UsageError(
                    f"{self.root} was made with {shown} {_shown(before.get(name))}, and {_shown(value)} is asked now: "
                    "continue it with the same, or name another directory by --out"
                )

    def run_path(self, job: Training) -> Path:
        return self.root / "runs" / job.name

    def is_done(self, job: Job) -> bool:
        """Returns whether the job has its result: a run that has come to its end, or a measurement."""
        if isinstance(job, Measurement):
            return self._measured_path(job).exists()
        directory, summary = RunDirectory(self.run_path(job)), None
        with contextlib.suppress(VeldtError):  # a damaged one: resuming says what is wrong
            summary = directory.read_summary() if directory.path.exists() else None
        return summary is not None and summary.get("reason") not in (None, "interrupted")

    def command(self, job: Job) -> list[str]:
        """Returns the command that does what is left of a job. VeldtError if its directory does not allow it."""
        if isinstance(job, Measurement):
            return job.command()
        path = self.run_path(job)
        if not path.exists():
            return job.command(path)
        if RunDirectory(path).is_locked():
            raise VeldtError(f"{path} is still being trained by another process: wait for it, or end it")
        if CheckpointStore(RunDirectory(path).checkpoints).has_any():
            return job.resume_command(path)
        remove_own_tree(path, OF_RUN)  # it was killed before its first checkpoint
        return job.command(path)

    def keep(self, job: Measurement, printed: str) -> None:
        """Stores what a measurement has printed. VeldtError if it is no JSON object."""
        try:
            values = strict_json.loads(printed)
        except ValueError as error:
            raise VeldtError(f"the measurement {job.name} printed no JSON: {error}") from None
        path = self._measured_path(job)
        with explained("a measurement", path):
            path.parent.mkdir(exist_ok=True)
        write_atomically(path, strict_json.dumps(values).encode(), "a measurement")

    def results(self, jobs: Sequence[Job]) -> Results:
        """Returns the results of all jobs that are done."""
        done = [job for job in jobs if self.is_done(job)]
        return Results(
            self.request,
            [FinishedRun(job, self.run_path(job)) for job in done if isinstance(job, Training)],
            [
                Measured(job, self.read_json(self._measured_path(job)))
                for job in done
                if isinstance(job, Measurement)
            ],
            [job.name for job in jobs if job not in done],
        )

    def read_json(self, path: Path) -> dict[str, Any]:
        """Returns the JSON object in a file of this directory. UsageError if it holds none."""
        try:
            value = strict_json.loads(read_file(path))
        except ValueError as error:
            raise UsageError(
                f"{path} is damaged ({error}): remove it, or name another directory by --out"
            ) from None
        if not isinstance(value, dict):
            raise UsageError(
                f"{path} is damaged (no JSON object): remove it, or name another directory by --out"
            )
        return value

    def _measured_path(self, job: Measurement) -> Path:
        return self.root / "measured" / f"{job.name}.json"


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
