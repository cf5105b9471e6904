"""The public functions that train: train and resume; and what there is to train."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from veldt.api.foreign_arguments import answers
from veldt.api.stored_run import read_stored_run, refuse_fixed, with_changes
from veldt.config.run_code import CodeChoice, Env, Part
from veldt.config.run_request import RunRequest
from veldt.config.train_config import TrainConfig
from veldt.envs.source import EnvSource, resolve
from veldt.errors import UsageError
from veldt.networks.own import NO_PARTS, OwnParts
from veldt.recipes import RECIPES
from veldt.recipes.configure import configure, request_of
from veldt.recipes.foreign_names import env_of_others
from veldt.runs.directory import RunDirectory
from veldt.runs.own_files import refuse_links
from veldt.runtime.usual_torch import usual_torch
from veldt.setting_metadata import check_path
from veldt.setting_text import flag
from veldt.systems.planning.run_plan import RunPlan, make_run_plan
from veldt.systems.run import Run, RunOptions, new_directory, run_system
from veldt.tracking.callback import Callback
from veldt.tracking.loggers.logger import Logger
from veldt.user_code.attribution import naming_user_code
from veldt.user_code.working_directory import working_directory


@answers(env_of_others)
@naming_user_code()
@usual_torch()
def train(
    recipe: str = "ppo",
    env: Env | None = None,
    *,
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
        env: a Gymnasium id, "module:function", "module:Id-v0" for an id that the import of the module registers, or a
            callable that returns an env.
        env_kwargs: keyword arguments for the function that makes the env; JSON values.
        network: a name, "module:function", or a callable that takes an observation's shape and returns an `nn.Module`
            from observations [N, ...] to float32 features [N, F].
        core: your own recurrent core in the place of the LSTM, as "module:function" or a callable that takes the
            number of features; see `networks.own_core.OwnCore`.
        actor, critic, model: your own actor and critic, or your own whole network, each as "module:function" or a
            callable that takes the env's `EnvSpec` and returns an `nn.Module`; see docs/extend/networks.md for the
            outputs that each algorithm needs.
        algorithm: replaces the recipe's algorithm and keeps its system, for example "c51" in "apex-dqn".
        run_dir: the run directory to create; default `runs/<recipe>-<env>-<seed>`, with an `algorithm` that is not the
            recipe's own after the recipe.
        cluster: where the processes of a distributed recipe run: "local" starts Ray on this machine, "HOST:PORT" joins
            a Ray cluster; by default they run on this machine without Ray. It is not stored in the run's settings.
        quiet: shows no progress.
        loggers, callbacks: objects of your own, besides those that the settings `log` and `callback` name. The run does
            not record them: give them again to `resume`.
        settings: any setting of the recipe by name: `steps=100_000, until=475, seed=3, learning_rate=1e-3`. Learning
            rates, clip, ent_coef and epsilon also take a schedule: `learning_rate="linear:1e-3:0"`, or a function of
            progress in [0, 1] that can be imported. NumPy's numbers count as Python's, and 1e6 as 1_000_000.

    Returns:
        The run, after it has stopped.

    Raises:
        UsageError: an argument is invalid, settings are incompatible, or a setting would have no effect; nothing was
            written.
        EnvError: the env failed.
        PluginError, NetworkError: code of a plug-in or a callback, or of your own network, raised an exception.
        VeldtError: training diverged, or a file could not be written; checkpoints already written are complete.
    """
    if env is None:
        raise _no_env(recipe)
    own, here = OwnParts(network, core, actor, critic, model), working_directory()
    request = configure(recipe, env, {} if env_kwargs is None else env_kwargs, algorithm, own, settings)
    options = RunOptions(cluster, quiet, loggers, callbacks)
    return run_system(request, options, directory_of_new(request.config, run_dir, here))


def _no_env(recipe: str) -> UsageError:
    example = 'train("ppo", "CartPole-v1")'
    if recipe in RECIPES:
        return UsageError(f"env is missing: give the environment to train on, as in {example}")
    return UsageError(f"the environment is the second argument, as in {example}, and {recipe!r} is no recipe")


@naming_user_code()
@usual_torch()
def train_config(
    config: TrainConfig,
    source: EnvSource | None = None,
    own: OwnParts = NO_PARTS,
    run_dir: str | Path | None = None,
    quiet: bool = False,
) -> Run:
    """Trains with a complete configuration.

    Args:
        source, own: the env, and the parts of the network that are callables, if the configuration does not name them.
        run_dir, quiet: as for `train`.

    Raises:
        VeldtError: as for `train`.
    """
    here = working_directory()
    request = request_of(config, source, own)
    return run_system(request, RunOptions(quiet=quiet), directory_of_new(config, run_dir, here))


def directory_of_new(
    config: TrainConfig, run_dir: str | Path | None, base: str
) -> Callable[[RunPlan], AbstractContextManager[RunDirectory]]:
    """Returns what makes the directory of a new run of `config`.

    A relative path begins at `base`, the working directory of the call: an environment, or the import of its module,
    may change it.
    """
    check_path(flag("run_dir"), run_dir)
    recipe = RECIPES.get(config.recipe)
    is_own = recipe is None or recipe.algorithm == config.algorithm
    return partial(new_directory, run_dir=run_dir, base=base, algorithm=None if is_own else config.algorithm)


@naming_user_code()
@usual_torch()
def resume(
    run: str | os.PathLike[str],
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
    directory = RunDirectory.open(run)
    refuse_fixed(run, settings)
    refuse_links(directory.path)
    choice = CodeChoice(env, OwnParts(network, core, actor, critic, model), trust)
    with directory.lock():
        stored = read_stored_run(directory, choice, settings)
        options = RunOptions(cluster, quiet, loggers, callbacks)
        opened, notes = with_changes(directory, stored), [*stored.notes, stored.other_versions]
        return run_system(
            stored.request, options, lambda _: opened, stored.checkpoint, list(filter(None, notes))
        )


def list_recipes() -> dict[str, str]:
    """Returns the name and a one-line summary of each recipe."""
    return {name: recipe.summary for name, recipe in RECIPES.items()}


@naming_user_code()
@usual_torch()
def drawn(config: TrainConfig) -> list[str]:
    """Returns lines of text that show the roles of a run with `config` and the edges between them."""
    run_plan = make_run_plan(RunRequest(config, resolve(config.env, config.env_kwargs)))
    return list(run_plan.decisions) if config.in_one_process else run_plan.graph().drawn()
