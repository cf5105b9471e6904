"""The protocol of a logger."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Logger(Protocol):
    """Receives the configuration, the metrics and the videos of a run.

    The process that records the run calls it, one call at a time: first `log_config`, then `log` for each row of
    metrics, last `close`. A logger may inherit from this class, whose methods do nothing, and define what it needs; one
    that does not inherit needs `log` alone.

    A logger that raises does not end the run: the error is shown once and recorded in events.jsonl, and the logger gets
    no more calls but `close`.
    """

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Called once, before the first row, with the settings of the run: nested JSON values, as under `resolved` in
        config.json."""
        return None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Called for each row of metrics.

        Args:
            step: agent steps since the start of the run.
            metrics: by name (docs/metrics.md), only those that were measured; a value may be NaN or infinite.
        """
        return None

    def log_video(self, step: int, path: Path) -> None:
        """Called for each video, an mp4 file, of the policy at `step`."""
        return None

    def rewind(self, step: int) -> None:
        """Called where the run continues from its checkpoint of `step`: later rows are about to be logged again."""
        return None

    def close(self) -> None:
        """Called once, when the run has ended or failed."""
        return None


_METHODS = tuple(name for name in vars(Logger) if not name.startswith("_"))


def close_after_failure(logger: Logger) -> None:
    """Closes a logger, if it has `close`; what that raises is not shown, since a failure came before."""
    with contextlib.suppress(Exception, SystemExit):
        if hasattr(logger, "close"):
            logger.close()


def missing_of_logger(logger: Any) -> str:
    """Returns why an object is no logger, as a clause: "which ..."; "" if it is one."""
    if isinstance(logger, type):
        return f"which is a class: call it, {logger.__name__}(...)"
    if not callable(log := getattr(logger, "log", None)):
        return "which has no method log"
    if inspect.iscoroutinefunction(log):
        return (
            "whose log is a coroutine (async def), which a call does not run: make it a plain function (def)"
        )
    if all(getattr(type(logger), name, None) is getattr(Logger, name) for name in _METHODS):
        return f"whose class defines none of the methods of a logger ({', '.join(_METHODS)}), so that it gets nothing"
    return ""
