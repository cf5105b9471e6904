"""Links from the report of several runs to the report of each."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from urllib.parse import quote

from veldt.report.data import RunData
from veldt.runs.directory import RunDirectory


def linked_name(run: RunData, out: Path) -> str:
    """The run's name, escaped; with a link, relative to the file `out`, if the run has a report of its own."""
    own, name = RunDirectory(run.path.resolve()).report_path, escape(run.name)
    page = out.parent.resolve() / out.name
    if own == page or not own.is_file():
        return name
    # A path is bytes, which may be in no encoding; the ./ keeps a colon in it from being read as a scheme.
    target = quote(os.fsencode("./" + os.path.relpath(own, page.parent)))
    return f'<a href="{escape(target)}">{name}</a>'
