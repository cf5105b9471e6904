"""What a run is shown and recorded by, from its start to its end, across restarts of its processes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from veldt.errors import UsageError, VeldtError
from veldt.runs.directory import RunDirectory
from veldt.tracking.callback import (
    Callback,
    CallbackContext,
    CallbackGroup,
    load_callback,
    made_callback,
    refuse_unknown_events,
)
from veldt.tracking.loggers.choice import load_loggers, opened_loggers, own_loggers
from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.loggers.logger import Logger, missing_of_logger
from veldt.tracking.progress import Progress


@dataclass(frozen=True)
class Recording:
    """The progress on the screen, the loggers and the callbacks of a run."""

    progress: Progress
    loggers: LoggerGroup
    callbacks: CallbackGroup


class RecordingPlan:
    """The loggers and callbacks that were asked for; checked, and imported where they are named, but not yet made.

    Args:
        log: the value of `--log`.
        callback: the value of `--callback`.
        loggers, callbacks: the user's own objects.

    Raises:
        UsageError: a name leads to nothing, a package is not installed, or an object is of another kind.
    """

    def __init__(
        self, log: str, callback: str | None, loggers: Sequence[Logger], callbacks: Sequence[Callback]
    ) -> None:
        for name, given in (("loggers", loggers), ("callbacks", callbacks)):
            if not isinstance(given, Sequence) or isinstance(given, str):
                raise UsageError(f"{name} is {given!r}: give a list, {name}=[...], also for a single one")
        for logger in loggers:
            if lack := missing_of_logger(logger):
                raise UsageError(f"loggers has {logger!r}, {lack}: give objects like veldt.Logger")
        for one in callbacks:
            if not isinstance(one, Callback):
                raise UsageError(
                    f"callbacks has {one!r}: give objects of classes that inherit from veldt.Callback"
                )
            refuse_unknown_events(one)
        self._log, self._loggers, self._callbacks = log, loggers, callbacks
        self._make_loggers = load_loggers(log)
        self._make_callbacks = {name: load_callback(name) for name in named_callbacks(callback)}

    @contextlib.contextmanager
    def opened(self, directory: RunDirectory, progress: Progress) -> Iterator[Recording]:
        """Yields the loggers and callbacks of the run in `directory`; in the end, closes or ends them."""
        config, path = directory.read_config(), directory.place
        named = [made_callback(name, make, path) for name, make in self._make_callbacks.items()]

        def note(text: str) -> None:
            progress.note(text)
            with contextlib.suppress(VeldtError):  # the run has ended: its outcome is what counts
                directory.write_event(context.step, "logger", text)

        with opened_loggers(
            self._log,
            path,
            config["id"],
            config["resolved"],
            self._make_loggers,
            self._loggers,
            note,
        ) as loggers:
            context = CallbackContext(path, config["resolved"], loggers)
            callbacks = CallbackGroup([*named, *self._callbacks], context)
            try:
                yield Recording(progress, loggers, callbacks)
            except BaseException:
                with contextlib.suppress(Exception):  # the failure of the run is the one to show
                    callbacks.end()
                raise
            callbacks.end()


def named_functions(log: str, callback: str | None) -> dict[str, list[str]]:
    """Returns the names of the user's functions that make loggers and callbacks, by what they make."""
    return {"logger": own_loggers(log), "callback": named_callbacks(callback)}


def named_callbacks(callback: str | None) -> list[str]:
    """Returns the names in the value of `--callback`."""
    return [] if callback is None else [name.strip() for name in callback.split(",")]
