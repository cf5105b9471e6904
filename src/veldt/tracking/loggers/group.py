"""All loggers of a run as one: metrics.jsonl, whose failure ends the run, and others, whose failure does not."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from veldt.errors import described
from veldt.tracking.loggers.background import BackgroundLogger
from veldt.tracking.loggers.logger import Logger, close_after_failure
from veldt.tracking.loggers.metrics_file import MetricsFile


class LoggerGroup:
    """Calls each logger of a run. `problems` are sentences for the user that nothing has shown yet.

    Args:
        directory: of the run, where metrics.jsonl is.
        others: further loggers, by name. One that raises gets no more calls but `close`.
    """

    def __init__(self, directory: Path, others: Iterable[tuple[str, Logger]] = ()) -> None:
        self.problems: list[str] = []
        self._file = MetricsFile(directory)
        self._others = list(others)
        self._failed: set[int] = set()
        self._shown: set[str] = set()

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._call("log_config", config)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Logs one row. Raises VeldtError if metrics.jsonl cannot be written."""
        self._file.log(step, metrics)
        self._call("log", step, metrics)

    def log_video(self, step: int, path: Path) -> None:
        self._call("log_video", step, path)

    def rewind(self, step: int) -> None:
        self._file.rewind(step)
        self._call("rewind", step)

    def close(self) -> None:
        self._file.close()
        for number in self._failed:
            close_after_failure(self._others[number][1])
        self._call("close")

    def take_problems(self) -> list[str]:
        """Returns and clears the sentences that nothing has shown yet."""
        taken, self.problems = self.problems, []
        return taken

    def _call(self, method: str, *arguments: Any) -> None:
        for number, (name, logger) in enumerate(self._others):
            if number in self._failed or not hasattr(logger, method):  # only `log` must exist
                continue
            try:
                getattr(logger, method)(*copy.deepcopy(arguments))  # a logger may change what it gets
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit too: a logger does not end the run
                self._failed.add(number)
                self.problems.append(f"the logger {name} raised {described(error)}; it gets no more metrics")
            # One sentence for each logger that works in the background.
            if isinstance(logger, BackgroundLogger) and logger.problem and name not in self._shown:
                self._shown.add(name)
                self.problems.append(logger.problem)
