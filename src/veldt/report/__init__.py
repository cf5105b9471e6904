"""The report of one run or several: a single HTML file with everything inside, made to be read and passed on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from veldt.errors import UsageError
from veldt.report.data import RunData
from veldt.report.page import SIGNATURE, render
from veldt.runs.files import explained, write_atomically
from veldt.runs.own_files import refuse_other

_FOOTER_BYTES = 200  # at the end of a report, with its signature in them


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write the report of the run directories `runs` to the HTML file `out`; returns `out`.

    Runs may be finished, still training, or killed; several are overlaid. An older report is replaced. UsageError for a
    path that is no run and for an `out` that is something else than a report, VeldtError when the disk refuses.
    """
    if not runs:
        raise UsageError("a report needs at least one run")
    out = Path(out)
    _refuse_foreign(out)
    html = render([RunData.load(Path(run)) for run in runs])
    with explained("the report", out):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, html.encode(), "the report")
    return out


def _refuse_foreign(out: Path) -> None:
    """UsageError if something is at `out` that is neither a report nor empty."""
    with explained("the report", out), contextlib.suppress(FileNotFoundError):
        refuse_other(out)
        with out.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _FOOTER_BYTES))
            if size and SIGNATURE.encode() not in file.read():
                raise UsageError(
                    f"{out} exists and is no report that veldt wrote: name another file by --out, or remove it"
                )
