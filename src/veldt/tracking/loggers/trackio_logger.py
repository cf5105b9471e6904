"""trackio, which has its dashboard on this machine. Its own environment variables apply, TRACKIO_DIR for one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veldt.tracking.loggers.logger import Logger


class TrackioLogger(Logger):
    """One run in the project "veldt".

    Args:
        directory: of the run; its name is the beginning of the run's name.
        run_id: the rest of the name: after a resume the same run continues.
    """

    def __init__(self, directory: Path, run_id: str) -> None:
        import trackio

        self._trackio, self._name = trackio, f"{directory.name}-{run_id}"
        self._run: Any = None

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._run = self._trackio.init(
            project="veldt", name=self._name, config=dict(config), resume="allow", embed=False
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def log_video(self, step: int, path: Path) -> None:
        self._run.log({"video": self._trackio.Video(str(path), format="mp4")}, step=step)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
