"""The report of one or several runs: a single self-contained HTML file."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from pathlib import Path

from veldt.errors import UsageError, VeldtError
from veldt.report.data import RunData
from veldt.report.page import SIGNATURE, render
from veldt.runs.files import explained, refuse_missing_directory, write_atomically
from veldt.runs.own_files import refuse_other

_FOOTER_BYTES = 200  # the last bytes of a report; they contain the signature


def write_report(runs: Sequence[Path], out: Path, score: float | None = None) -> Path:
    """Writes the report of the run directories `runs` to the HTML file `out`; returns `out`.

    Runs may be finished, still training, or killed; several runs are overlaid and compared. An older report is
    replaced.

    Args:
        runs: directories of runs. One that is given twice counts once.
        out: the file to write.
        score: of several runs on one environment, the report says how many steps and how much time each recipe took
            until its mean return of 100 episodes was at least this; None: the return at which they were to stop.

    Raises:
        UsageError: a path is no run, `out` is a file other than a report or its directory does not exist, or `score`
            is not finite or is for runs on several environments.
        VeldtError: a run has a damaged file, or the report cannot be written.
    """
    if not runs:
        raise UsageError("a report needs at least one run")
    out = Path(out)
    _refuse_foreign(out)
    loaded = _loaded(_distinct(runs))
    if score is not None:
        _check_score(score, loaded)
    html = render(loaded, out, score)
    # A setting may hold letters that have no place in UTF-8: parts of a path that is in no encoding, for example.
    write_atomically(out, html.encode(errors="replace"), "the report", "write the report again")
    return out


def _loaded(runs: Sequence[Path]) -> list[RunData]:
    """Reads the runs. A damaged one is named, and not left out: its scores would be missing from all statistics."""
    loaded = []
    for path in runs:
        try:
            loaded.append(RunData.load(path))
        except VeldtError as error:
            if len(runs) == 1:
                raise
            raise type(error)(f"{error}; leave {path} out to report the other runs") from error
    return loaded


def _distinct(runs: Sequence[Path]) -> list[Path]:
    """The directories in their order, each once, by the first of its names."""
    first: dict[Path, Path] = {}
    for run in runs:
        first.setdefault(Path(run).resolve(), Path(run))
    return list(first.values())


def _check_score(score: float, runs: Sequence[RunData]) -> None:
    """Raises UsageError if `score` cannot be a score of all `runs`."""
    if not math.isfinite(score):
        raise UsageError(f"--score is {score}: it must be a finite number")
    environments = len({run.setting("env") for run in runs})
    if environments > 1:
        raise UsageError(
            f"--score is {score:g}, but the runs are on {environments} environments, whose returns do not compare: "
            "leave it out, or write a report for each environment"
        )


def _refuse_foreign(out: Path) -> None:
    """Raises UsageError if `out` exists and is neither a report nor empty, or its directory does not exist."""
    refuse_missing_directory(out)
    with explained("the report", out), contextlib.suppress(FileNotFoundError):
        refuse_other(out)
        with out.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _FOOTER_BYTES))
            if size and SIGNATURE.encode() not in file.read():
                raise UsageError(
                    f"{out} exists and is not a report that veldt wrote: name another file by --out"
                )
