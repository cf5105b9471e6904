"""The report of one run or several: a single HTML file with everything inside, made to be read and passed on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from veldt.errors import UsageError
from veldt.runs.files import explained, write_atomically
from veldt.runs.report.data import RunData
from veldt.runs.report.page import render


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write the report of the run directories `runs` to the HTML file `out`; returns `out`.

    Runs may be finished, still training, or killed; several are overlaid. UsageError for a path that is no run,
    VeldtError when the disk refuses.
    """
    if not runs:
        raise UsageError("a report needs at least one run")
    out = Path(out)
    html = render([RunData.load(Path(run)) for run in runs])
    with explained("the report", out):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, html.encode(), "the report")
    return out
