"""What a run is shown and recorded by, from its start to its end, across restarts of its processes."""

from __future__ import annotations

from dataclasses import dataclass

from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.progress import Progress


@dataclass(frozen=True)
class Recording:
    """The progress on the screen, and the loggers."""

    progress: Progress
    loggers: LoggerGroup
