"""Links from the report of several runs to the report of each."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from urllib.parse import quote

from veldt.report.data import RunData
from veldt.runs.directory import RunDirectory
from veldt.runs.files import open_to_read

_HEAD_BYTES = 1024


def linked_name(run: RunData, out: Path) -> str:
    """The run's name, escaped; with a link, relative to the file `out`, if the run has a report of its own.

    The file of that name may be a report of several runs: the first of them gets it.
    """
    own, name = RunDirectory(run.path.resolve()).report_path, escape(run.name)
    page = out.parent.resolve() / out.name
    if own == page or not _is_of_one(own):
        return name
    # A path is bytes, which may be in no encoding; the ./ keeps a colon in it from being read as a scheme.
    target = quote(os.fsencode("./" + os.path.relpath(own, page.parent)))
    return f'<a href="{escape(target)}">{name}</a>'


def number_of_runs(number: int) -> str:
    """The element of a report's head that says how many runs it is about."""
    return f'<meta name="veldt-runs" content="{number}">'


def _is_of_one(report: Path) -> bool:
    try:
        with open_to_read(report) as file:
            return number_of_runs(1).encode() in file.read(_HEAD_BYTES)
    except OSError:
        return False
