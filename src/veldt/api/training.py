"""The public functions that train: train and resume."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from veldt.agent import make_network
from veldt.algorithms.schedule_settings import schedule_functions, try_functions
from veldt.api.checks import check_recipe
from veldt.config.plugins import read_run_config
from veldt.config.run_code import (
    Choice,
    Env,
    Part,
    admit,
    admit_functions,
    own_names,
    remember_code,
    remember_functions,
)
from veldt.config.train_config import RESUMABLE, TrainConfig, to_dict
from veldt.config.warnings import warnings_about
from veldt.envs.source import EnvSource, resolve
from veldt.errors import CheckpointError, UsageError
from veldt.networks.own import NO_PARTS, PARTS, OwnParts
from veldt.recipes import find, plugins_of
from veldt.recipes.overrides import (
    by_section,
    refuse_unread,
    refuse_unread_compression,
    refuse_unread_mlp,
    refuse_unread_share,
    with_settings,
)
from veldt.replay.archive import refuse_other_segments
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.machine import versions
from veldt.runs.new_run import new_run, run_name
from veldt.runs.own_files import refuse_links
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import flush_denormals
from veldt.systems.planning.run_plan import make_run_plan
from veldt.systems.run import graph_of, run_system, runtime
from veldt.tracking.callback import Callback
from veldt.tracking.loggers.choice import own_loggers
from veldt.tracking.loggers.logger import Logger
from veldt.tracking.progress import Progress, Silent
from veldt.tracking.recording import RecordingPlan, named_callbacks
from veldt.user_code.import_path import can_be_loaded, name_of


@dataclass(frozen=True)
class Run:
    """The result of a training run that has stopped.

    `path` is the run directory. `reason` is why the run stopped: "steps" (all steps are done), "until" (the target
    return was reached), "callback" (one asked to stop) or "interrupted". `until` is the target return (None: no
    target); check `reason` to see whether it was reached. `summary` has the metrics of summary.json (docs/metrics.md).
    """

    path: Path
    reason: str
    until: float | None
    summary: Mapping[str, Any] = field(repr=False)


def train(
    recipe: str = "ppo",
    *,
    env: Env,
    env_kwargs: Mapping[str, Any] | None = None,
    network: Part | None = None,
    core: Part | None = None,
    actor: Part | None = None,
    critic: Part | None = None,
    model: Part | None = None,
    algorithm: str | None = None,
    run_dir: str | Path | None = None,
    cluster: str | None = None,
    quiet: bool = False,
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Run:
    """Trains until all steps are done or the target return is reached.

    Args:
        recipe: "ppo", "rainbow", "ga3c", "gorila", "apex-dqn", "impala" or another; `veldt recipes` lists all.
        env: a Gymnasium id, "module:function", or a callable that returns an env.
        env_kwargs: keyword arguments for the function that makes the env; JSON values.
        network: a name, "module:function", or a callable that takes an observation's shape and returns an `nn.Module`
            from observations [N, ...] to float32 features [N, F].
        core: your own recurrent core in the place of the LSTM, as "module:function" or a callable that takes the
            number of features; see `networks.own_core.OwnCore`.
        actor, critic, model: your own actor and critic, or your own whole network, each as "module:function" or a
            callable that takes the env's `EnvSpec` and returns an `nn.Module`; see docs/extend/networks.md for the
            outputs that each algorithm needs.
        algorithm: replaces the recipe's algorithm and keeps its system, for example "c51" in "apex-dqn".
        run_dir: the run directory to create; default `runs/<recipe>-<env>-<seed>`.
        cluster: where the processes of a distributed recipe run: "local" starts Ray on this machine, "HOST:PORT" joins
            a Ray cluster; by default they run on this machine without Ray. It is not stored in the run's settings.
        quiet: shows no progress.
        loggers, callbacks: objects of your own, besides those that the settings `log` and `callback` name. The run does
            not record them: give them again to `resume`.
        settings: any setting of the recipe by name: `steps=100_000, until=475, seed=3, learning_rate=1e-3`. Learning
            rates, clip, ent_coef and epsilon also take a schedule: `learning_rate="linear:1e-3:0"`, or a function of
            progress in [0, 1] that can be imported.

    Returns:
        The run, after it has stopped.

    Raises:
        UsageError: an argument is invalid, settings are incompatible, or a setting would have no effect; nothing was
            written.
        EnvError: the env failed.
        VeldtError: training diverged, or a file could not be written; checkpoints already written are complete.
    """
    source = resolve(env, env_kwargs)
    settings = {name: _named_schedule(name, value) for name, value in settings.items()}
    parts = OwnParts(network, core, actor, critic, model)
    settings |= {part: value for part in PARTS if isinstance(value := getattr(parts, part), str)}
    own = parts.callables()
    for part in PARTS:
        if (value := getattr(own, part)) is not None and not callable(value):
            gets = "a shape" if part == "network" else "a number of features" if part == "core" else "a spec"
            raise UsageError(
                f"{part} is {value!r}: it must be a name, 'module:function' or a callable from {gets}"
            )
    config = with_settings(find(recipe).config(source.name, algorithm), settings)
    config = dataclasses.replace(config, env_kwargs=dict(env_kwargs or {}))
    named: dict[str, Any] = own.names()
    config = dataclasses.replace(config, network=dataclasses.replace(config.network, **named))
    refuse_unread(settings, config, source, bool(own_names(config)))
    return train_config(
        config,
        source,
        own,
        run_dir,
        quiet,
        given=settings,
        cluster=cluster,
        loggers=loggers,
        callbacks=callbacks,
    )


@flush_denormals()
def train_config(
    config: TrainConfig,
    source: EnvSource | None = None,
    own: OwnParts = NO_PARTS,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    *,
    given: Mapping[str, Any] | None = None,
    cluster: str | None = None,
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Trains with a complete configuration.

    Args:
        source, own: the env, and the parts of the network that are callables, if the configuration does not name them.
        run_dir, quiet, cluster, loggers, callbacks: as for `train`.
        given: settings by name that come from the user and not from the recipe; the run records them as such.

    Raises:
        VeldtError: as for `train`.
    """
    source, given = source or resolve(config.env, config.env_kwargs), given or {}
    config = dataclasses.replace(config, plugins=plugins_of(config))
    try_functions(config.learn)
    run_plan = make_run_plan(config, source, own)
    if not given.keys().isdisjoint({"hidden", "layer_norm"}):
        refuse_unread_mlp(given, config, make_network(run_plan.config, run_plan.spec, own))
    refuse_unread_compression(given, run_plan.spec)
    refuse_unread_share(given, run_plan.config)
    if not config.in_one_process:
        graph_of(run_plan)  # raises for incompatible parts before anything is written
    plan = RecordingPlan(config.run.log, config.run.callback, loggers, callbacks)
    resolved, recorded = to_dict(run_plan.config), {**given, **own.names()}
    resolved["network"] |= own.names()
    asked = {"env": config.env, "env_kwargs": config.env_kwargs, **by_section(config, recorded)}
    hardware: dict[str, Any] = {"cores": len(allowed_cores())}
    if run_plan.device.type == "cuda":
        hardware["gpu"] = torch.cuda.get_device_name(run_plan.device)
    with (
        runtime(config, cluster) as start_roles,
        new_run(run_dir, run_name(config.recipe, config.env, config.run.seed)) as directory,
    ):
        directory.write_config(asked, resolved, sys.argv, versions(), hardware)
        with directory.lock(), _progress(run_plan.config, quiet) as progress:
            progress.note(f"{config.recipe} on {config.env}: {directory.path}")
            warnings = warnings_about(run_plan.config, given, on_cluster=cluster is not None)
            for decision in (*run_plan.decisions, *warnings):
                progress.note(decision)
            _remember(source, {**own_names(config), **own.names()}, config, progress)
            with plan.opened(directory, progress) as recording:
                outcome = run_system(run_plan, directory, recording, None, start_roles)
    return Run(directory.path, outcome.reason, config.run.until, outcome.summary)


@flush_denormals()
def resume(
    run: str | Path,
    *,
    env: Env | None = None,
    network: Part | None = None,
    core: Part | None = None,
    actor: Part | None = None,
    critic: Part | None = None,
    model: Part | None = None,
    trust: bool = False,
    cluster: str | None = None,
    quiet: bool = False,
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Run:
    """Continues a run from its newest complete checkpoint; on the CPU bit-identical to a run that never stopped.

    Args:
        run: the run directory.
        env, network, core, actor, critic, model, trust: as for `load`; code that is used here counts as trusted from
            now on.
        cluster: as for `train`, independent of where the run was trained before.
        quiet, loggers, callbacks: as for `train`.
        settings: changes to how long the run trains (`steps`, `until`), what it records (`checkpoint_every`,
            `keep_checkpoints`, `checkpoint_replay`, `log_every`, `log`, `callback`) and how it evaluates
            (`evaluate_every`, `evaluate_steps`).

    Returns:
        The run, after it has stopped again.

    Raises:
        UsageError: the run does not exist, another process trains it, a setting cannot change, or one of its files is
            a link.
        CheckpointError: no checkpoint is complete, or the newest one belongs to another recipe.
        EnvError: the env failed.
    """
    directory = RunDirectory.open(Path(run))
    if fixed := sorted(set(settings) - set(RESUMABLE)):
        raise UsageError(
            f"--{fixed[0].replace('_', '-')} cannot change when a run is resumed: only {', '.join(RESUMABLE)} can; "
            "start a new run instead"
        )
    refuse_links(directory.path)
    # Take the lock first: a process that still trains this run keeps writing checkpoints.
    with directory.lock():
        previous = read_run_config(directory.path, directory.read_config()["resolved"], trust)
        config = with_settings(previous, settings)
        notes: list[str] = []
        checkpoint = CheckpointStore(directory.checkpoints).newest(notes.append)
        check_recipe(checkpoint, config)
        _check_segments(checkpoint)
        if previous.run.steps != config.run.steps < checkpoint.step:
            raise UsageError(
                f"--steps is {config.run.steps:,}, but {checkpoint.step:,} are done: give more, or leave it out"
            )
        own = OwnParts(network, core, actor, critic, model)
        chosen = admit(directory.path, config, Choice(env, own, trust), "resume(run, {})", trains=True)
        for kind, names in _functions(config).items():
            if not trust and {"logger": "log"}.get(kind, kind) not in settings:
                admit_functions(directory.path, kind, names)
        plan = RecordingPlan(config.run.log, config.run.callback, loggers, callbacks)
        run_plan = make_run_plan(chosen.config, chosen.source, chosen.own)
        with runtime(config, cluster) as start_roles, _progress(run_plan.config, quiet) as progress:
            directory.change_config("run", settings)  # the next resume reads them
            for note in notes:
                progress.note(note)
            _remember(chosen.source, {**own_names(chosen.config), **chosen.own.names()}, config, progress)
            with plan.opened(directory, progress) as recording:
                outcome = run_system(run_plan, directory, recording, checkpoint, start_roles)
    return Run(directory.path, outcome.reason, config.run.until, outcome.summary)


def _named_schedule(setting: str, value: Any) -> Any:
    """The name of a function that was given as a schedule; other values as they are. UsageError if it has no name."""
    if not callable(value):
        return value
    name = name_of(value)
    if name.startswith("__main__:") or not can_be_loaded(name):
        raise UsageError(
            f"{setting} is the function {name}, which other processes and a resumed run could not import: put it into "
            "a file, and give it as 'module:function'"
        )
    return name


def _remember(source: EnvSource, names: Mapping[str, str], config: TrainConfig, progress: Progress) -> None:
    schedules = schedule_functions(config.learn).values()
    notes = [remember_code(source, names, schedules, config.plugins)]
    notes += [remember_functions(kind, names) for kind, names in _functions(config).items()]
    for note in notes:
        if note is not None:
            progress.note(note)


def _functions(config: TrainConfig) -> dict[str, list[str]]:
    """Returns the names of the user's functions that make loggers and callbacks."""
    return {"logger": own_loggers(config.run.log), "callback": named_callbacks(config.run.callback)}


def _progress(config: TrainConfig, quiet: bool) -> Progress:
    title = f"{config.recipe} · {config.env} · seed {config.run.seed}"
    return Progress(title, config.run.steps, config.run.until, stream=Silent() if quiet else None)


def _check_segments(checkpoint: Checkpoint) -> None:
    try:
        refuse_other_segments(checkpoint.meta)
    except CheckpointError as error:
        raise CheckpointError(
            f"the manifest of {checkpoint.path} was not written by veldt ({error}): remove this checkpoint"
        ) from None
