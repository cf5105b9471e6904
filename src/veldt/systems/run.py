"""Runs a system: decides what is left open, checks it, opens the run's directory and the runtime, and trains.

`train` and `resume` differ in what they ask for, in the directory, and in the checkpoint; all else is here.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from veldt.algorithms.schedule_settings import schedule_functions
from veldt.config.run_code import own_names, remember_code, remember_functions
from veldt.config.run_request import RunRequest
from veldt.config.stored_config import to_dict
from veldt.config.train_config import TrainConfig
from veldt.config.versions import versions_for_run
from veldt.envs.failures import TO_GO_ON
from veldt.errors import CheckpointError, EnvError, RoleError
from veldt.exchange.graph import Graph
from veldt.runs.checkpoint_files import Checkpoint, restoring
from veldt.runs.directory import RunDirectory
from veldt.runs.new_run import new_run, run_name
from veldt.runs.resume_hint import how_to_resume
from veldt.runtime.activity import training_in
from veldt.runtime.devices import describe_devices, flush_denormals
from veldt.runtime.orphans import remove_orphans
from veldt.runtime.supervision.interfaces import RunningRoles
from veldt.setting_metadata import check_type
from veldt.setting_text import flag
from veldt.systems.driver.local_runtime import start_inline, start_local
from veldt.systems.driver.outcome import Outcome, stop_on_signals
from veldt.systems.driver.restart_policy import RestartLimit, run_restarting
from veldt.systems.driver.training_run import RestartHistory, StartRoles, TrainingRun
from veldt.systems.planning.checks import check_plan, check_request
from veldt.systems.planning.run_plan import RunPlan, make_run_plan
from veldt.tracking.callback import Callback
from veldt.tracking.loggers.logger import Logger
from veldt.tracking.progress import Progress, Silent
from veldt.tracking.recording import Recording, RecordingPlan, named_functions
from veldt.user_code.imports import refuse_training_in_import


@dataclass(frozen=True)
class Run:
    """The result of a training run that has stopped.

    `path` is the run directory. `reason` is why the run stopped: "steps" (all steps are done), "until" (the target
    return was reached), "callback" (one asked to stop) or "interrupted". `until` is the target return (None: no
    target); check `reason` to see whether it was reached. `summary` has the metrics of summary.json (docs/metrics.md).
    A run can be given wherever a path is wanted, as in `veldt.load(run)`.
    """

    path: Path
    reason: str
    until: float | None
    summary: Mapping[str, Any] = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class RunOptions:
    """What a call of `train` or `resume` chooses for itself, and no run stores.

    Args:
        cluster: where the processes run; None: on this machine, without Ray.
        quiet: shows no progress.
        loggers, callbacks: the user's own objects, besides those that the settings name.
    """

    cluster: str | None = None
    quiet: bool = False
    loggers: Sequence[Logger] = ()
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        check_type(flag("cluster"), self.cluster, str | None)
        check_type("quiet", self.quiet, bool)


@flush_denormals()
def run_system(
    request: RunRequest,
    options: RunOptions,
    open_directory: Callable[[RunPlan], AbstractContextManager[RunDirectory]],
    checkpoint: Checkpoint | None = None,
    notes: Sequence[str] = (),
) -> Run:
    """Decides what is left open, checks it, and trains to the end, from the start or resumed from `checkpoint`.

    Args:
        open_directory: yields the run's directory, locked. It is entered when the runtime is there, and nothing is
            written before.
        notes: sentences to show before training, after the decisions of a new run; both kinds of run show warnings.

    Raises:
        UsageError: the run is not possible as asked; nothing was written.
        VeldtError: training failed; a note says how to resume, if possible.
    """
    refuse_training_in_import()
    check_request(request, options.cluster)
    remove_orphans()  # a run in one process starts no server, which would
    asked = request.config.run
    recording_plan = RecordingPlan(asked.log, asked.callback, options.loggers, options.callbacks)
    run_plan = make_run_plan(request)
    warnings = check_plan(run_plan, options.cluster, request.given_before)
    config = run_plan.config
    with (
        _runtime(config, options.cluster) as start_roles,
        open_directory(run_plan) as directory,
        _progress(config, options.quiet) as progress,
    ):
        if checkpoint is None:
            notes = [f"{config.recipe} on {config.env}: {directory.path}", *run_plan.decisions, *notes]
        for note in (*notes, *warnings, *_remember(run_plan)):
            progress.note(note)
        with recording_plan.opened(directory, progress) as recording:
            is_given = "max_restarts" in {**request.given_before, **request.given}
            limit = RestartLimit(config.roles.max_restarts, is_given)
            outcome = _drive(run_plan, directory, recording, checkpoint, start_roles, limit)
    return Run(directory.path_from_here, outcome.reason, config.run.until, outcome.summary)


@contextlib.contextmanager
def new_directory(
    run_plan: RunPlan, run_dir: str | Path | None, algorithm: str | None = None, base: str | None = None
) -> Iterator[RunDirectory]:
    """Makes the directory of a new run with its config.json, locks it, and removes it if the run fails at once.

    Args:
        run_dir: its path; None: `runs/<recipe>-<env>-<seed>`.
        algorithm: the run's algorithm where it is not the recipe's own, for the name: `runs/<recipe>-<algorithm>-...`.
        base: the directory that a relative path begins at; None: the working directory.

    Raises:
        UsageError: `run_dir` exists.
    """
    config, given = run_plan.config, run_plan.given
    asked: dict[str, Any] = {"env": config.env, "env_kwargs": config.env_kwargs}
    for name, value in given.items():
        asked.setdefault(config.section_of(name), {})[name] = value
    name = run_name(config.recipe, config.env, config.run.seed, algorithm)
    with new_run(run_dir, name, base) as directory:
        directory.write_config(
            asked, to_dict(config), sys.argv, versions_for_run(config), describe_devices(run_plan.device)
        )
        with directory.lock():
            yield directory


@contextlib.contextmanager
def _runtime(config: TrainConfig, cluster: str | None) -> Iterator[StartRoles]:
    """Yields what runs a graph: this process, others of this machine, or a cluster, connected until the block ends."""
    if cluster is None:
        yield start_inline if config.in_one_process else start_local
        return
    from veldt.runtime.on_ray.cluster import connected

    with connected(cluster) as joined:
        from veldt.systems.driver.ray_runtime import start_on_ray

        yield partial(start_on_ray, joined)


def _progress(config: TrainConfig, quiet: bool) -> Progress:
    title = f"{config.recipe} · {config.env} · seed {config.run.seed}"
    return Progress(title, config.run.steps, config.run.until, stream=Silent() if quiet else None)


def _remember(run_plan: RunPlan) -> list[str]:
    """Records that the user trains with the code that the run names. Returns sentences to show where that fails."""
    config = run_plan.config
    parts = {**own_names(config), **run_plan.own.names()}
    schedules = schedule_functions(config.learn).values()
    notes = [remember_code(run_plan.source, parts, schedules, config.plugins)]
    functions = named_functions(config.run.log, config.run.callback)
    notes += [remember_functions(kind, names) for kind, names in functions.items()]
    return [note for note in notes if note is not None]


def _drive(
    run_plan: RunPlan,
    directory: RunDirectory,
    recording: Recording,
    checkpoint: Checkpoint | None,
    start_roles: StartRoles,
    limit: RestartLimit,
) -> Outcome:
    def start(graph: Graph) -> tuple[RunningRoles, dict[str, Any]]:
        return start_roles(graph.with_given_limit() if limit.is_given else graph)

    def begin(checkpoint: Checkpoint | None, lost: RestartHistory | None = None) -> TrainingRun:
        with restoring(checkpoint):
            if checkpoint is not None:
                # All systems need it, and the roles that load it are in other processes.
                checkpoint.groups["weights"]
            return TrainingRun(run_plan, directory, recording, checkpoint, start, lost)

    try:
        with training_in(str(directory.path)):
            if run_plan.config.roles.resumes_as_a_whole:
                return run_restarting(begin, checkpoint, directory.place, limit)
            run = begin(checkpoint)
            with stop_on_signals() as stop:
                return run.run(stop)
    except (Exception, KeyboardInterrupt) as error:
        _say_what_to_do(error, directory, run_plan.config)
        raise


def _say_what_to_do(error: BaseException, directory: RunDirectory, config: TrainConfig) -> None:
    """Adds notes to the error that ends a run: how to continue the run, and what helps against envs that fail."""
    has_died = isinstance(error, RoleError) and bool(error.moment)
    has_failed = isinstance(error, EnvError) or (isinstance(error, RoleError) and error.is_env_error)
    # It would not continue from a checkpoint that cannot be loaded.
    note = "" if isinstance(error, CheckpointError) else how_to_resume(directory)
    if note:
        error.add_note(f"when the environment is fixed, {note}" if has_failed or has_died else note)
    elif isinstance(error, KeyboardInterrupt):
        error.add_note("there was no checkpoint yet, so there is nothing to continue from")
    if has_failed and config.envs.on_env_error == "stop":
        error.add_note(f"a new run with {TO_GO_ON}")
    elif has_died and "env_backend" not in config.roles.only_in_phases():
        apart = f"--env-backend workers {TO_GO_ON}"
        error.add_note(f"where the environment ends its process, a new run with {apart}")
    elif has_died and config.envs.on_env_error == "stop":
        error.add_note(
            "where the environment ends its process, a new run with --on-env-error restart starts that process again "
            "instead"
        )
