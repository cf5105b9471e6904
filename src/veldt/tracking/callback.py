"""Callbacks: code of the user that is called at the events of a run, and may stop it or add metrics."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from veldt.errors import PluginError, UsageError, VeldtError, as_error, described, did_you_mean
from veldt.runtime.activity import importing
from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.metric_names import METRICS
from veldt.user_code.import_path import call_refused, load_function
from veldt.user_code.numbers import as_number


class CallbackContext:
    """What a callback sees of a run, and how it acts on it. All callbacks get the same object.

    Args:
        directory: of the run.
        config: its settings, as under `resolved` in config.json: nested, JSON values.

    `step` is the number of agent steps so far; `metrics` the newest row of metrics by name (docs/metrics.md), empty
    before the first; `reason` why the run has stopped (see `veldt.Run`), None while it trains and after a failure.
    """

    def __init__(self, directory: Path, config: Mapping[str, Any], loggers: LoggerGroup) -> None:
        self.directory, self.config = directory, config
        self.step = 0
        self.metrics: Mapping[str, float] = {}
        self.reason: str | None = None
        self.stop_reason: str | None = None
        self._loggers = loggers
        self._caller: Callback | None = None
        self._added: dict[str, tuple[float, Callback | None]] = {}

    def stop(self, reason: str) -> None:
        """Stops the run as soon as the current work is done, with a checkpoint; `reason` is shown and recorded.

        Raises:
            UsageError: `reason` is no text.
        """
        if not (isinstance(reason, str) and reason):  # None would stop nothing
            raise UsageError(
                f"the callback {type(self._caller).__name__} stops the run with the reason {reason!r}: it must be a "
                "sentence, such as 'no progress'"
            )
        self.stop_reason = self.stop_reason or reason

    def add_metrics(self, metrics: Mapping[str, float]) -> None:
        """Adds metrics to the next row, or in `on_log` to this one. A name without a prefix gets `callback/`.

        Raises:
            UsageError: a value is no number, or a name is one of veldt's own, or another callback has added it to this
                row. When the row is logged, also for a name that the row has already, such as one of the algorithm.
        """
        for name, value in metrics.items():
            full = name if "/" in name else f"callback/{name}"
            _, owner = self._added.get(full, (0.0, self._caller))
            if name in METRICS:
                raise UsageError(_refusal(self._caller, name, "which veldt measures itself"))
            if owner is not self._caller:
                raise UsageError(
                    _refusal(
                        self._caller, full, f"which the callback {type(owner).__name__} has added to this row"
                    )
                )
            if (number := as_number(value)) is None:
                raise UsageError(
                    f"the callback {type(self._caller).__name__} adds the metric {full} as {value!r}: it must be a "
                    "number"
                )
            self._added[full] = number, self._caller

    def log_video(self, path: Path) -> None:
        """Hands an mp4 file to the loggers, as a video of the policy at the current step.

        Raises:
            UsageError: there is no such file. (A logger would raise, and get nothing more of the run.)
        """
        video = Path(path)
        if not video.is_file():
            raise UsageError(
                f"the callback {type(self._caller).__name__} logs the video {video}, and there is no such file: write "
                "it before, as mp4"
            )
        self._loggers.log_video(self.step, video)

    def take_added(self, row: Mapping[str, float]) -> dict[str, float]:
        """Returns and clears the metrics that were added to `row`. UsageError where the row has one of that name."""
        added, self._added = self._added, {}
        for name, (_, owner) in added.items():
            if name in row:
                raise UsageError(_refusal(owner, name, "which is already in this row"))
        return {name: value for name, (value, _) in added.items()}

    def called_by(self, callback: Callback) -> None:
        """Notes whose metrics the next ones are."""
        self._caller = callback


def _refusal(callback: Callback | None, name: str, why: str) -> str:
    return f"the callback {type(callback).__name__} adds the metric {name}, {why}: rename it"


class Callback:
    """Inherit, and define what you need; each method is a plain function that gets the run's `CallbackContext`.

    What would never run is refused when the run begins: a method `on_...` with another name than these, one of
    Stable-Baselines3's callbacks, an `async` method.

    The process that records the run calls the methods, between its other work: a method that takes long delays
    training, or, where learners are separate processes, checkpoints and records. An exception ends the run, after which
    it can be resumed from its newest checkpoint.
    """

    def on_start(self, context: CallbackContext) -> None:
        """Before the first step, also of a resumed run (`context.step` is more than 0 then)."""

    def on_rollout(self, context: CallbackContext) -> None:
        """After each rollout; where actors are separate processes, when more steps were counted (10 times a second)."""

    def on_update(self, context: CallbackContext) -> None:
        """After updates that a learner has reported: twice a second, or in a run of one process with each row."""

    def on_log(self, context: CallbackContext) -> None:
        """Before a row of metrics (`context.metrics`) is logged."""

    def on_evaluation(self, context: CallbackContext) -> None:
        """After an evaluation during training; `context.metrics` has its `eval/...`."""

    def on_checkpoint(self, context: CallbackContext) -> None:
        """Soon after a checkpoint is on disk."""

    def on_end(self, context: CallbackContext) -> None:
        """When the run has ended (`context.reason`) or failed. No row follows that metrics could be added to."""


_EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))
# By which onlog and onLog are seen to be misspelt, too.
_WITHOUT_UNDERSCORES = frozenset(name.replace("_", "") for name in _EVENTS)
# Methods of Stable-Baselines3's callbacks, with or without the underscore in front, and what veldt has for each.
_OF_STABLE_BASELINES = {
    "init_callback": "on_start",
    "on_training_start": "on_start",
    "on_rollout_start": "on_rollout, at the end of the rollout before",
    "on_step": "on_rollout, after all steps of a rollout, with context.stop(reason) instead of returning False",
    "on_rollout_end": "on_rollout",
    "on_training_end": "on_end",
    "update_locals": "on_rollout, whose context has the step and the metrics, and not the loop's local variables",
    "update_child_locals": "on_rollout, whose context has the step and the metrics, and not the loop's local variables",
}


def refuse_unknown_events(callback: Callback) -> None:
    """Raises UsageError for what would never run, without a word: a method `on_...` that no event calls, one of
    Stable-Baselines3's, or an event's that is no plain function. Attributes that `__init__` sets count as methods."""
    cls = type(callback)
    for name in [*dir(cls), *vars(callback)]:
        has = f"the callback {cls.__name__} has the method {name}"
        if name in _EVENTS:
            _refuse_no_function(cls, name, getattr(callback, name))
        elif not callable(vars(callback).get(name, getattr(cls, name, None))):
            continue
        elif here := _OF_STABLE_BASELINES.get(name.removeprefix("_")):
            raise UsageError(f"{has} of Stable-Baselines3, and no event calls it: in veldt it is {here}")
        elif name.startswith("on_") or name.lower().replace("_", "") in _WITHOUT_UNDERSCORES:
            raise UsageError(
                f"{has}{did_you_mean(name, _EVENTS)}, and no event calls it: the methods are {', '.join(_EVENTS)}; "
                "rename it"
            )


def _refuse_no_function(cls: type[Callback], name: str, method: Any) -> None:
    what = f"{name} of the callback {cls.__name__} is"
    if not callable(method):
        raise UsageError(f"{what} {method!r}: it must be a method, or be left out")
    for is_of_kind, kind in (
        (inspect.iscoroutinefunction, "a coroutine (async def)"),
        (inspect.isasyncgenfunction, "an asynchronous generator (async def with yield)"),
        (inspect.isgeneratorfunction, "a generator (def with yield)"),
    ):
        if is_of_kind(method):
            raise UsageError(f"{what} {kind}, whose body a call does not run: make it a plain function (def)")


class CallbackGroup:
    """All callbacks of a run, in order. Their exceptions become PluginErrors."""

    def __init__(self, callbacks: Sequence[Callback], context: CallbackContext) -> None:
        self.context = context
        self._callbacks = callbacks
        self._has_started = False

    def start(self, step: int) -> None:
        """Calls `on_start`, once, though the processes of a run may start several times."""
        if not self._has_started:
            self._has_started = True
            self.call("on_start", step)

    def call(self, method: str, step: int, metrics: Mapping[str, float] | None = None) -> None:
        """Calls a method of each callback at `step`, after the context has got newer `metrics`."""
        self.context.step = step
        if not self._callbacks:
            return
        if metrics is not None:
            self.context.metrics = metrics
        for callback in self._callbacks:
            self.context.called_by(callback)
            cls = type(callback)
            with as_error(
                PluginError, f"the callback {cls.__name__} (module {cls.__module__}) raised in {method}"
            ):
                returned = getattr(callback, method)(self.context)
            if returned is False:  # as a callback of Stable-Baselines3 stops training
                raise UsageError(
                    f"{method} of the callback {cls.__name__} returned False, which stops no run: call "
                    "context.stop(reason) to stop it, and return nothing"
                )

    def end(self) -> None:
        """Calls `on_end`, if `on_start` was called."""
        if self._has_started:
            self.call("on_end", self.context.step)


def load_callback(name: str) -> Callable[[Path], Any]:
    """Imports a function of the user. UsageError if there is none of this name, PluginError if its module fails."""
    with importing(PluginError, f"callback {name}"):
        return load_function(name, "callback")


def made_callback(name: str, function: Callable[[Path], Any], directory: Path) -> Callback:
    """Returns the callback that a function of the user makes. UsageError if it raises or returns something else."""
    try:
        callback = function(directory)
    except (VeldtError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UsageError(
            f"--callback {name}: the function raised {described(error)}{call_refused(function)}"
        ) from error
    if not isinstance(callback, Callback):
        raise UsageError(f"--callback {name}: the function returned {callback!r}: return a veldt.Callback")
    refuse_unknown_events(callback)
    return callback
