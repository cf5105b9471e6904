"""The table of an experiment's jobs while they run: a live one on a terminal, otherwise a line for each that ends."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from veldt.experiments.experiment import Job, Training
from veldt.experiments.scheduler import Progress
from veldt.experiments.workspace import Workspace
from veldt.formatting import as_float, decimal, duration
from veldt.runs import strict_json
from veldt.runs.files import open_to_read

_REFRESH_S = 2.0
_LAST_BYTES = 1 << 16  # of the metrics, in which the last row is


class LiveTable:
    """Shows how far the jobs are."""

    def __init__(self, console: Console, workspace: Workspace, jobs: Sequence[Job]) -> None:
        self._console, self._workspace, self._jobs = console, workspace, jobs
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown_at = float("-inf")
        self._said: set[Job] | None = None

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Draws the table, at most once in two seconds; without a terminal, says which jobs have ended."""
        if self._live is None:
            self._say_ended(progress)
        elif time.monotonic() - self._shown_at >= _REFRESH_S:
            self._shown_at = time.monotonic()
            self._live.update(self._table(progress), refresh=True)

    def _say_ended(self, progress: Progress) -> None:
        if self._said is None:
            self._said = set(progress.done)
        for job in (*progress.done, *progress.failed):
            if job not in self._said:
                self._said.add(job)
                ended = len(progress.done) + len(progress.failed)
                how = f"failed: {progress.failed[job]}" if job in progress.failed else "done"
                self._console.print(f"{ended}/{len(self._jobs)} {job.name}: {how}", highlight=False)

    def _table(self, progress: Progress) -> Table:
        table = Table("run", "state", "time", "return", box=None)
        waiting = len(progress.waiting)
        for job, began in progress.started.items():
            share, score = self._how_far(job)
            table.add_row(job.name, share, duration(time.monotonic() - began), score)
        for job, why in progress.failed.items():
            table.add_row(job.name, f"failed: {why}", "", "")
        table.add_row(f"{len(progress.done)} done, {waiting} waiting", "", "", "")
        return table

    def _how_far(self, job: Job) -> tuple[str, str]:
        if not isinstance(job, Training):
            return "measuring", ""
        path = self._workspace.run_path(job)
        row = last_row(path)
        if row is None:
            return "starting", ""
        share = as_float(row.get("step")) / job.settings["steps"]
        return f"{share:.0%}", decimal(row.get("rollout/ep_return_mean"))


def last_row(run: Path) -> dict[str, Any] | None:
    """Returns the last whole row of a run's metrics, without reading the others; None if there is none yet."""
    try:
        with open_to_read(run / "metrics.jsonl") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            lines = file.read().split(b"\n")
        row = strict_json.loads(lines[-2])
    except (OSError, IndexError, ValueError):
        return None
    return row if isinstance(row, dict) else None
