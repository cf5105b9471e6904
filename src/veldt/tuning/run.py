"""Runs a search from its first trial to its page, and continues one that was interrupted."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

from rich.console import Console
from rich.table import Table

from veldt.errors import UsageError, VeldtError
from veldt.experiments.machines import machines_of
from veldt.experiments.own_directory import OwnDirectory
from veldt.experiments.page import Page, curves_of, write_page
from veldt.experiments.results import FinishedRun
from veldt.formatting import decimal, percent
from veldt.runs.new_run import run_name
from veldt.runtime.cores import allowed_cores
from veldt.setting_text import flag, in_search
from veldt.tuning.exhibit import BEST, caution, exhibit_of, summary
from veldt.tuning.jobs import choose_jobs
from veldt.tuning.request import TuneRequest, name_in_messages
from veldt.tuning.screen import SearchScreen
from veldt.tuning.search import Search, best_first
from veldt.tuning.study import Study, refuse_missing_optuna

_STUDY, _RUNS, _PAGE = "study.db", "runs", "tune.html"


def tune(
    request: TuneRequest,
    root: Path | None,
    console: Console,
    *,
    trials: int,
    jobs: int = 0,
    prunes: bool = True,
) -> Path:
    """Searches until there are so many trials in the directory `root`; returns the path of the page.

    Args:
        root: `experiments/tune-RECIPE-ENV` if None.
        console: gets how far the search is, and in the end the best trials.
        trials: of the whole search, with those that were run before.
        jobs: trials side by side; 0 chooses by the cores, the memory and the GPU.
        prunes: whether a trial ends early whose score is below the median of the others at the same steps.

    Raises:
        UsageError: Optuna is not installed; `root` is of another search; no trial could run.
        VeldtError: trials fail whatever their values are, none has a score, or a file cannot be written; what is done
            is kept.
        KeyboardInterrupt: after the running trials have written their checkpoints.
    """
    refuse_missing_optuna()
    _check_counts(trials, jobs)
    request.check()
    config = request.fixed.config
    side_by_side, why = (jobs, "") if jobs else choose_jobs(request)
    algorithm = None if request.algorithm is None else config.algorithm
    name = run_name(f"tune-{request.recipe}", config.env, 0, algorithm).removesuffix("-0")
    root = Path("experiments") / name if root is None else root
    command = _command(request, root, trials, jobs, prunes)
    directory = OwnDirectory(root, "tune", "tune", request.asked, name_in_messages)
    directory.open()
    with contextlib.closing(directory):
        directory.begin()
        if why:
            console.print(why, highlight=False, soft_wrap=True)
        study = Study(
            root / _STUDY, request.space, request.seed, prunes=prunes, side_by_side=side_by_side > 1
        )
        with contextlib.closing(study):
            return _searched(request, study, root, console, trials, side_by_side, command)


def _check_counts(trials: int, jobs: int) -> None:
    if trials < 1:
        raise UsageError(f"--trials is {trials}: it must be at least 1")
    cores = len(allowed_cores())
    if not 0 <= jobs <= cores:
        raise UsageError(
            f"--jobs is {jobs}: it must be in [1, {cores}], the cores that may be used, or 0 to choose"
        )


def _searched(
    request: TuneRequest, study: Study, root: Path, console: Console, trials: int, jobs: int, command: str
) -> Path:
    page = root / _PAGE
    with SearchScreen(console) as screen:
        for name, dimension in request.space.items():
            screen.note(f"  {flag(name)} from {dimension}")
        try:
            Search(request, study, root / _RUNS, jobs, screen).run(trials)
        except BaseException as error:
            with contextlib.suppress(VeldtError):  # the disk may be full
                write_page(page, _page(request, study, root, command))
                if isinstance(error, KeyboardInterrupt):
                    error.add_note(f"{summary(request, study.trials())} The same command continues.")
            raise
    write_page(page, _page(request, study, root, command))
    if not best_first(study.trials()):
        failed = [f"{trial.name}: {trial.why}" for trial in study.trials() if trial.why]
        raise VeldtError(
            f"no trial is done and has a score ({', '.join(failed[-1:])}); {page} has all trials"
        )
    _print_best(request, study, console)
    return page


def _page(request: TuneRequest, study: Study, root: Path, command: str) -> Page:
    trials = study.trials()
    best = [
        FinishedRun(request.training(trial.name, trial.values), root / _RUNS / trial.name)
        for trial in best_first(trials)[:BEST]
    ]
    winners = best_first(trials)[:1]
    return Page(
        title=f"tune {request.recipe} on {request.fixed.config.env}",
        lead="A search for the settings with the best score, with one run for each trial.",
        exhibit=exhibit_of(request, trials, study.importances(), best),
        command=command,
        machines=machines_of(run.record for run in best),
        notes={
            "What is searched": [
                f"{flag(name)} from {dimension}" for name, dimension in request.space.items()
            ],
            "Train the best with other seeds": [request.command_with_seeds(one.values) for one in winners],
        },
        files=curves_of(best),
    )


def _command(request: TuneRequest, root: Path, trials: int, jobs: int, prunes: bool) -> str:
    """Returns the command of the search, with its space in words even where it is the usual one."""
    fixed, seed = request.training("", {}), ["--seed", str(request.seed)]
    search = [f"{name}={dimension}" for name, dimension in request.space.items()]
    about = [
        "--trials",
        str(trials),
        *(["--jobs", str(jobs)] if jobs else []),
        *([] if prunes else ["--no-prune"]),
    ]
    words = ["tune", *fixed.words[1:], *seed, *fixed.flags, "--search", *search, *about]
    return shlex.join(["veldt", *words, "--out", str(root)])


def _print_best(request: TuneRequest, study: Study, console: Console) -> None:
    trials, importances = study.trials(), study.importances()
    ranked = best_first(trials)
    console.print(f"\n{summary(request, trials)}", highlight=False, soft_wrap=True)
    table = Table("trial", "score", *map(flag, request.space), box=None)
    for trial in ranked[:BEST]:
        table.add_row(
            trial.name, decimal(trial.score), *(in_search(trial.values[name]) for name in request.space)
        )
    if ranked:
        console.print(table)
    if importances:
        shares = ", ".join(f"{flag(name)} {percent(share)}" for name, share in importances.items())
        console.print(f"\nImportances: {shares}. {caution(trials)}".rstrip(), highlight=False, soft_wrap=True)
    if ranked:
        console.print("\nTrain the best with other seeds:", highlight=False)
        console.print(f"  {request.command_with_seeds(ranked[0].values)}\n", highlight=False, soft_wrap=True)
