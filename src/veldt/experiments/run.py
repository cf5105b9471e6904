"""Runs an experiment from its plan to its page, and continues one that was interrupted."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from veldt.errors import UsageError, VeldtError
from veldt.experiments.experiment import Experiment, Job, Request, Training, needed_by
from veldt.experiments.live import LiveTable
from veldt.experiments.page import page_of, write_page
from veldt.experiments.planning.checks import check_installed, check_jobs, check_names, check_starts
from veldt.experiments.planning.estimate import least_seconds, measure_speeds, seconds_of, total_seconds
from veldt.experiments.planning.memory import Memory, memory_for
from veldt.experiments.planning.plan import hours_of, plan_table
from veldt.experiments.scheduler import Scheduler
from veldt.experiments.workspace import Workspace
from veldt.formatting import counted, duration
from veldt.report.normalising import is_normalisable

_HOUR = 3600.0


def run_experiment(
    experiment: Experiment,
    request: Request,
    root: Path,
    console: Console,
    *,
    budget_hours: float = math.inf,
    plan_only: bool = False,
) -> Path | None:
    """Runs what is left of an experiment in the directory `root`; returns the path of its page.

    Args:
        console: gets the plan, a live table of the jobs, and the sentence of each that failed.
        budget_hours: after as many hours no further job is started, and the page shows what there is.
        plan_only: only print the plan, and return None.

    Raises:
        UsageError: `root` is of another experiment or of other settings; something is not installed; a run could not
            begin; the budget is too small for one job. Nothing is made then.
        VeldtError: jobs failed, after all others were done and the page was written; or the disk is full, and the same
            command continues when there is room.
        KeyboardInterrupt: after the running jobs have written their checkpoints; its note names the page.
    """
    check_installed(experiment)
    jobs = list(experiment.jobs(request))
    workspace = Workspace(root, experiment, request)
    workspace.open()  # before the checks, which take seconds: another process may work there
    with contextlib.closing(workspace):
        try:
            check_names(jobs)
            left = [job for job in jobs if not workspace.is_done(job)]
            memory = memory_for(left, check_jobs(left, request))
            check_starts(left)
            _planned(workspace, experiment, jobs, left, console, budget_hours, memory)
        except VeldtError:
            workspace.discard_unless_begun()
            raise
        if plan_only:
            return None
        return _worked(workspace, experiment, jobs, console, budget_hours * _HOUR, memory)


def _planned(
    workspace: Workspace,
    experiment: Experiment,
    jobs: Sequence[Job],
    left: Sequence[Job],
    console: Console,
    budget_hours: float,
    memory: Memory,
) -> None:
    """Prints what is left to do and how long it takes. UsageError if the budget is too small for a part of it."""
    say = partial(console.print, highlight=False)
    steps = {job: workspace.steps_left(job) for job in left}
    say(_summary(experiment, jobs, steps))
    if experiment.normalises and (unknown := [env for env in _envs(jobs) if not is_normalisable(env)]):
        say(f"No human score is published of {', '.join(unknown)}: the raw scores are shown alone.")
    if not left:
        return
    first = [job for job in left if needed_by(job) not in steps]  # the others need one of these
    _refuse_small(budget_hours, min(least_seconds(job, steps[job]) for job in first), "at least")
    speeds = measure_speeds(workspace, left, partial(say, style="dim"))
    seconds = {job: seconds_of(job, steps[job], speeds) for job in left}
    known = {job: alone for job, alone in seconds.items() if not math.isnan(alone)}
    if len(known) == len(left):  # one of which that is not known may be short enough
        _refuse_small(budget_hours, min(known[job] for job in first), "about")
    say(plan_table(seconds, speeds))
    if limit := memory.limit():
        say(limit)
    say(_total(known, len(left) - len(known), memory))


def _total(known: Mapping[Job, float], unknown: int, memory: Memory) -> str:
    """Returns how long all runs take: those of which that is known, beside so many others."""
    without = f"{counted(unknown, 'run', 'runs')} whose speed could not be measured"
    if not known:
        return f"{without}, so that it is not known how long they take"
    total = total_seconds(known, memory)
    how = (
        "one at a time" if all(job.cores == 0 for job in known) else "as many side by side as its cores allow"
    )
    return (
        f"{counted(len(known), 'run', 'runs')}, about {hours_of(total / _HOUR)} hours ({duration(total)}) on this "
        f"machine, {how}" + (f"; without {without}" if unknown else "")
    )


def _refuse_small(budget_hours: float, shortest_s: float, about: str) -> None:
    """Raises UsageError if the budget is less than the shortest job takes."""
    if budget_hours * _HOUR < shortest_s:
        raise UsageError(
            f"--budget {budget_hours:g} hours is too small for one run, which takes {about} "
            f"{shortest_s / _HOUR:.2g} hours here"
        )


def _worked(
    workspace: Workspace,
    experiment: Experiment,
    jobs: Sequence[Job],
    console: Console,
    budget_s: float,
    memory: Memory,
) -> Path:
    """Does what is left, and returns the page of all that is done. VeldtError if a job has failed."""
    workspace.begin()
    page = workspace.root / "experiment.html"
    command = _command(experiment, workspace.request, workspace.root)
    try:
        with LiveTable(console, workspace, jobs) as table:
            progress = Scheduler(workspace, jobs, table.show, budget_s, memory).run()
    except BaseException as error:
        with contextlib.suppress(VeldtError):  # the disk may be full
            write_page(page, page_of(experiment, workspace.results(jobs), command))
            if isinstance(error, KeyboardInterrupt):
                done = sum(workspace.is_done(job) for job in jobs)
                error.add_note(
                    f"{done} of {counted(len(jobs), 'run is', 'runs are')} done, which {page} shows. The same command "
                    "continues."
                )
        raise
    write_page(page, page_of(experiment, workspace.results(jobs), command))
    if progress.failed:
        job, why = next(iter(progress.failed.items()))
        raise VeldtError(
            f"{len(progress.failed)} of {len(jobs)} runs failed, {job.name} first: {why}; {page} shows the others, and "
            "the same command tries again"
        )
    if progress.waiting:
        console.print(
            f"The budget is spent: {counted(len(progress.waiting), 'run is', 'runs are')} left, and the same command "
            "continues.",
            highlight=False,
        )
    return page


def _summary(experiment: Experiment, jobs: Sequence[Job], left: Mapping[Job, int]) -> str:
    """Returns a line of numbers; `left` has the steps of each job that is not done."""
    done = len(jobs) - len(left)
    parts = [f"{experiment.name}: {counted(len(jobs), 'run', 'runs')}"]
    if done:
        parts.append(f"{done} done")
    if left:
        parts.append(f"{len(left)} to do")
    if any(left.values()):
        parts.append(f"{sum(left.values()):,} steps")
    return ", ".join(parts)


def _envs(jobs: Sequence[Job]) -> list[str]:
    return list(dict.fromkeys(job.env for job in jobs if isinstance(job, Training)))


def _command(experiment: Experiment, request: Request, root: Path) -> str:
    seeds = ("--seeds", str(request.seeds)) if experiment.repeats else ()
    games = ("--games", *request.games) if request.games else ()
    recipes = ("--recipes", *request.recipes) if request.recipes else ()
    starts = ("--starts", str(request.starts[0].path.parent)) if request.starts else ()
    what = ("--scale", request.scale, *seeds, *games, *recipes, *starts, "--out", str(root))
    return shlex.join(("veldt", "experiment", experiment.name, *what))
