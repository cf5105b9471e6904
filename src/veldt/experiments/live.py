"""Tables of what runs: live ones on a terminal; without one, of an experiment a line for each job that ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from veldt.experiments.experiment import Evaluation, Job, Training
from veldt.experiments.scheduler import JobProgress
from veldt.experiments.workspace import Workspace
from veldt.formatting import as_float, decimal, duration
from veldt.runs import strict_json
from veldt.runs.files import open_to_read
from veldt.runs.own_names import METRICS

_REFRESH_S = 2.0
_LAST_BYTES = 1 << 16  # of the metrics, in which the last row is


class LiveView:
    """A table at the bottom of a terminal, drawn at most once in two seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown_at = float("-inf")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def draw(self, make: Callable[[], Table]) -> bool:
        """Draws the table that `make` returns, when it is time; returns whether there is a terminal."""
        if self._live is not None and time.monotonic() - self._shown_at >= _REFRESH_S:
            self._shown_at = time.monotonic()
            self._live.update(make(), refresh=True)
        return self._live is not None


class LiveTable(LiveView):
    """Shows how far the jobs are."""

    def __init__(self, console: Console, workspace: Workspace, jobs: Sequence[Job]) -> None:
        super().__init__(console)
        self._workspace, self._jobs = workspace, jobs
        self._printed: set[Job] | None = None

    def show(self, progress: JobProgress) -> None:
        """Draws the table, at most once in two seconds; without a terminal, prints which jobs have ended."""
        if not self.draw(lambda: self._table(progress)):
            self._print_ended(progress)

    def _print_ended(self, progress: JobProgress) -> None:
        if self._printed is None:
            self._printed = set(progress.done)
        for job in (*progress.done, *progress.failed):
            if job not in self._printed:
                self._printed.add(job)
                ended = len(progress.done) + len(progress.failed)
                how = f"failed: {progress.failed[job]}" if job in progress.failed else "done"
                self._console.print(f"{ended}/{len(self._jobs)} {job.name}: {how}", highlight=False)

    def _table(self, progress: JobProgress) -> Table:
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
            return "evaluating" if isinstance(job, Evaluation) else "measuring", ""
        path = self._workspace.run_path(job)
        row = last_row(path)
        if row is None:
            return "starting", ""
        share = as_float(row.get("step")) / job.settings["steps"]
        return f"{share:.0%}", decimal(row.get("rollout/ep_return_mean"))


def last_row(run: Path) -> dict[str, Any] | None:
    """Returns the last whole row of a run's metrics, without reading the others; None if there is none yet."""
    try:
        with open_to_read(run / METRICS) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            lines = file.read().split(b"\n")
        row = strict_json.loads(lines[-2])
    except (OSError, IndexError, ValueError):
        return None
    return row if isinstance(row, dict) else None
