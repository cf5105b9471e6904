"""The loggers that `--log` names: checked before a run begins, and made when it has a directory."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from veldt.errors import PluginError, UsageError, VeldtError, described, did_you_mean
from veldt.runtime.activity import importing
from veldt.tracking.loggers.background import BackgroundLogger
from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.loggers.logger import Logger, close_after_failure, missing_of_logger
from veldt.user_code.import_path import call_refused, load_function, split_name

LOGGERS = ("tensorboard", "wandb", "trackio", "mlflow")
_TENSORBOARD_CLOSE_S = 5.0
_SERVICE_CLOSE_S = 60.0  # for what is under way to a server


def named_loggers(log: str) -> tuple[str, ...]:
    """Returns the names in the value of `--log`. UsageError for a name that no logger has."""
    names = tuple(name.strip() for name in log.split(","))
    if names == ("none",):
        return ()
    if "none" in names:
        raise UsageError(f"--log is '{log}', and none means no logger: leave none out, or the others")
    for name in names:
        if ":" in name:
            split_name(name, "logger")
        elif name not in LOGGERS:
            close = did_you_mean(name, (*LOGGERS, "none"))
            raise UsageError(
                f"--log is '{log}', and no logger is called '{name}'{close}: take {', '.join(LOGGERS)}, several with "
                "commas between them, none alone, or your own as module:function"
            )
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"--log names {twice[0]} twice: each logger can be there once")
    return names


def own_loggers(log: str) -> list[str]:
    """Returns the names in the value of `--log` that are functions of the user."""
    return [name for name in named_loggers(log) if ":" in name]


def load_loggers(log: str) -> dict[str, Callable[[Path], Logger]]:
    """Imports the functions of the user that `log` names, and refuses a service whose package is not installed.

    Raises:
        UsageError: that, or there is no such function.
        PluginError: the function's module failed when it was imported.
    """
    for name in named_loggers(log):
        if name in LOGGERS[1:] and importlib.util.find_spec(name) is None:
            raise UsageError(
                f"--log {name} needs the package {name}, which is not installed: pip install 'veldt[{name}]'"
            )
    functions = {}
    for name in own_loggers(log):
        with importing(PluginError, f"logger {name}"):
            functions[name] = load_function(name, "logger")
    return functions


@contextlib.contextmanager
def opened_loggers(
    log: str,
    directory: Path,
    run_id: str,
    config: Mapping[str, Any],
    functions: Mapping[str, Callable[[Path], Logger]],
    instances: Sequence[Logger],
    note: Callable[[str], None],
) -> Iterator[LoggerGroup]:
    """Yields the loggers of a run, with metrics.jsonl's first, and closes them.

    Args:
        log: the value of `--log`.
        directory: of the run.
        run_id: identifies the run in services.
        config: the run's settings, for `Logger.log_config`.
        functions: from `load_loggers`.
        instances: the user's own loggers.
        note: shows the user, and records, a sentence about a logger that failed at its end.

    Raises:
        UsageError: a function of the user raised, or returned no logger.
    """
    made: dict[str, Logger] = {}
    given = [(f"{type(one).__name__} (module {type(one).__module__})", one) for one in instances]
    try:
        for name, function in functions.items():
            made[name] = _made(name, function, directory)
        # After the user's functions, which may fail: these begin to write at once.
        for name in named_loggers(log):
            if name not in made:
                made[name] = _in_background(name, directory, run_id)
        group = LoggerGroup(directory, [*((name, made[name]) for name in named_loggers(log)), *given])
    except BaseException:
        for logger in made.values():
            close_after_failure(logger)
        raise
    try:
        group.log_config(config)
        yield group
    finally:
        group.close()
        for text in group.take_problems():
            note(text)


def _made(name: str, function: Callable[[Path], Logger], directory: Path) -> Logger:
    try:
        logger = function(directory)
    except (VeldtError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UsageError(
            f"--log {name}: the function raised {described(error)}{call_refused(function)}"
        ) from error
    if lack := missing_of_logger(logger):
        raise UsageError(f"--log {name}: the function returned {logger!r}, {lack}: return a veldt.Logger")
    return logger


def _in_background(name: str, directory: Path, run_id: str) -> Logger:
    def make() -> Logger:
        match name:
            case "tensorboard":
                from veldt.tracking.loggers.tensorboard_logger import TensorBoardLogger

                return TensorBoardLogger(directory)
            case "wandb":
                from veldt.tracking.loggers.wandb_logger import WandbLogger

                return WandbLogger(directory, run_id)
            case "trackio":
                from veldt.tracking.loggers.trackio_logger import TrackioLogger

                return TrackioLogger(directory, run_id)
            case _:
                from veldt.tracking.loggers.mlflow_logger import MlflowLogger

                return MlflowLogger(directory, run_id)

    return BackgroundLogger(name, make, _TENSORBOARD_CLOSE_S if name == "tensorboard" else _SERVICE_CLOSE_S)
