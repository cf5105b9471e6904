"""The directory of an experiment: what was asked, its runs and measurements, and which of them are done."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from veldt.errors import VeldtError
from veldt.experiments.experiment import Evaluation, Experiment, Job, Measurement, Request, Training
from veldt.experiments.own_directory import AGAIN, OwnDirectory
from veldt.experiments.results import Evaluated, FinishedRun, Measured, Results
from veldt.experiments.training_state import command_for_rest, has_ended, steps_left
from veldt.runs import strict_json
from veldt.runs.files import explained, write_atomically

_SPEEDS = "speeds.json"
_BEFORE = {_SPEEDS, "probe"}  # what a plan alone leaves
_SEEDS, _STARTS = "seeds", "starts"


class Workspace(OwnDirectory):
    """The directory `root` of an experiment.

    experiment.json   the experiment's name and request, with the checksum of each file of starts: it can be continued
                      with the same, with more seeds, or with starts of further games
    runs/NAME         a run directory for each training
    measured/NAME.json  what each measurement, and each evaluation of a run, has printed
    speeds.json       steps per second by machine that were measured for the estimate
    """

    def __init__(self, root: Path, experiment: Experiment, request: Request) -> None:
        starts = {one.env: one.checksum for one in request.starts}
        plain = dataclasses.asdict(dataclasses.replace(request, starts=()))
        asked = {"experiment": experiment.name, **plain, "games": list(request.games), _STARTS: starts}
        for name in ("recipes", _STARTS):  # directories of older versions have none
            if not asked[name]:
                del asked[name]
        super().__init__(
            root, "experiment", "experiment", asked, _name_in_messages, _BEFORE, (_SEEDS, _STARTS)
        )
        self.request = request
        self.speeds_path = root / _SPEEDS

    def run_path(self, job: Training) -> Path:
        return self.root / "runs" / job.name

    def is_done(self, job: Job) -> bool:
        """Returns whether the job has its result: a run that has come to its end, or what it printed."""
        if isinstance(job, Training):
            return has_ended(self.run_path(job))
        return self._printed_path(job).exists()

    def steps_left(self, job: Job) -> int:
        """Returns the steps that a training which is not done still makes; 0 for other jobs."""
        return steps_left(job, self.run_path(job)) if isinstance(job, Training) else 0

    def command(self, job: Job) -> list[str]:
        """Returns the command that does what is left of a job.

        Raises:
            VeldtError: the directory of a training does not allow it, or the starts of an evaluation have changed.
        """
        if isinstance(job, Measurement):
            return job.command()
        if isinstance(job, Evaluation):
            job.starts.check_unchanged()
            return job.command(self.run_path(job.of))
        return command_for_rest(job, self.run_path(job))

    def keep(self, job: Measurement | Evaluation, printed: str) -> None:
        """Stores what a measurement or an evaluation has printed. VeldtError if it is no JSON object."""
        what = "measurement" if isinstance(job, Measurement) else "evaluation"
        try:
            values = strict_json.loads(printed)
        except ValueError as error:
            raise VeldtError(f"the {what} {job.name} printed no JSON: {error}") from None
        if not isinstance(values, dict):
            raise VeldtError(f"the {what} {job.name} printed no JSON object: {printed.strip()[:80]}")
        path = self._printed_path(job)
        with explained(f"the {what}", path, AGAIN):
            path.parent.mkdir(exist_ok=True)
        write_atomically(path, strict_json.dumps(values).encode(), f"the {what}", AGAIN)

    def results(self, jobs: Sequence[Job]) -> Results:
        """Returns the results of all jobs that are done."""
        done = [job for job in jobs if self.is_done(job)]
        return Results(
            self.request,
            [FinishedRun(job, self.run_path(job)) for job in done if isinstance(job, Training)],
            [
                Measured(job, self.read_json(self._printed_path(job)))
                for job in done
                if isinstance(job, Measurement)
            ],
            [job.name for job in jobs if job not in done],
            [
                Evaluated(job, self.read_json(self._printed_path(job)))
                for job in done
                if isinstance(job, Evaluation)
            ],
        )

    def _printed_path(self, job: Measurement | Evaluation) -> Path:
        return self.root / "measured" / f"{job.name}.json"


def seeds_of(root: Path) -> int | None:
    """Returns the number of seeds of the experiment in `root`; None if there is none, or if it cannot be read."""
    try:
        seeds = strict_json.loads((root / "experiment.json").read_bytes())[_SEEDS]
    except (OSError, ValueError, KeyError, TypeError):  # `Workspace.open` says what is wrong with it
        return None
    return seeds if isinstance(seeds, int) and seeds > 0 else None


def _name_in_messages(name: str) -> str:
    if name.startswith(f"{_STARTS}."):
        return f"--starts and, for {name.removeprefix(f'{_STARTS}.')}, a file with the checksum"
    return "the experiment" if name == "experiment" else f"--{name}"
