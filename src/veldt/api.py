"""The public Python face: train, resume, evaluate, record_starts, load, recipes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from veldt.agent import Agent, make_network
from veldt.config.run_code import Choice, Env, Network, admit, remember_code
from veldt.config.train_config import RESUMABLE, TrainConfig, from_dict, to_dict
from veldt.config.warnings import warnings_about
from veldt.envs.arrangement import probe_spec
from veldt.envs.source import EnvSource, resolve
from veldt.errors import CheckpointError, UsageError
from veldt.evaluation.evaluator import Evaluation, play_episodes, play_steps
from veldt.evaluation.human_starts import play_starts, record_from
from veldt.evaluation.starts import Starts, check_numbers, read_starts
from veldt.evaluation.starts_file import STARTS_NAME, check_new_file
from veldt.learning.learner import load_weights
from veldt.networks.build import TorsoFactory, is_own
from veldt.networks.precision import apply_precision
from veldt.recipes import RECIPES, find
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
from veldt.runtime.devices import choose_device, flush_denormals
from veldt.systems.planning.run_plan import make_run_plan
from veldt.systems.run import graph_of, run_system, runtime
from veldt.tracking.progress import Progress, Silent
from veldt.user_code.import_path import name_of

PROTOCOLS = ("games", "atari", "human-starts")


@dataclass(frozen=True)
class Run:
    """A run that has stopped.

    `path` is its directory. `reason` is why it stopped: "steps" (all done), "until" (the score was reached) or
    "interrupted". `until` is the score it was to reach (None: none was asked for); whoever needs it reached looks at
    `reason`. `summary` has the metrics of summary.json (docs/metrics.md).
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
    network: Network | None = None,
    algorithm: str | None = None,
    run_dir: str | Path | None = None,
    cluster: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Trains until its steps are done or its score is reached, and returns the run.

    Args:
        recipe: "ppo", "rainbow", "ga3c", "gorila", "apex-dqn", "impala" and more; `veldt recipes` lists them all.
        env: a Gymnasium id, "module:function", or a callable returning an environment.
        env_kwargs: JSON values, passed to whatever makes the environment.
        network: a name, "module:function", or a callable from an observation's shape to an `nn.Module` that maps
            observations [N, ...] to float32 features [N, F].
        algorithm: another than the recipe's own, in its system: "c51" in "apex-dqn", say.
        run_dir: the directory to make for the run; default `runs/<recipe>-<env>-<seed>`.
        cluster: where the processes of a decoupled recipe live: "local" starts a Ray on this machine, "HOST:PORT" joins
            one; by default they are processes of this machine, without Ray. No part of the run's settings.
        quiet: shows no progress.
        settings: any setting of the recipe by name: `steps=100_000, until=475, seed=3, learning_rate=1e-3`.

    Raises:
        UsageError: something asked for cannot be done as asked, or would have no effect; nothing was written.
        EnvError: the environment failed.
        VeldtError: training diverged, or the disk refused; checkpoints already written are whole.
    """
    source = resolve(env, env_kwargs)
    if isinstance(network, str):
        settings["network"] = network
    config = with_settings(find(recipe).config(source.name, algorithm), settings)
    config = dataclasses.replace(config, env_kwargs=dict(env_kwargs or {}))
    own = None if network is None or isinstance(network, str) else network
    if own is not None and not callable(own):
        raise UsageError(
            f"network is {own!r}: it must be a name, 'module:function' or a callable from a shape"
        )
    refuse_unread(settings, config, source, own is not None or is_own(config.network.network))
    return train_config(config, source, own, run_dir, quiet, given=settings, cluster=cluster)


@flush_denormals()
def train_config(
    config: TrainConfig,
    source: EnvSource | None = None,
    network: TorsoFactory | None = None,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    *,
    given: Mapping[str, Any] | None = None,
    cluster: str | None = None,
) -> Run:
    """Trains as a whole configuration says.

    Args:
        source, network: where they are not named by the configuration.
        run_dir, quiet, cluster: as for `train`.
        given: settings by name that the user gave, rather than the recipe; they are recorded as such.

    Raises:
        VeldtError: as for `train`.
    """
    source, given = source or resolve(config.env, config.env_kwargs), given or {}
    run_plan = make_run_plan(config, source, network)
    if not given.keys().isdisjoint({"hidden", "layer_norm"}):
        refuse_unread_mlp(given, config, make_network(run_plan.config, run_plan.spec, network))
    refuse_unread_compression(given, run_plan.spec)
    refuse_unread_share(given, run_plan.config)
    if not config.in_one_process:
        graph_of(run_plan)  # what does not fit together is refused before anything is written
    resolved, recorded = to_dict(run_plan.config), dict(given)
    if network is not None:
        recorded["network"] = resolved["network"]["network"] = name_of(network)
    asked = {"env": config.env, "env_kwargs": config.env_kwargs, **by_section(config, recorded)}
    hardware: dict[str, Any] = {"cores": len(allowed_cores())}
    if run_plan.device.type == "cuda":
        hardware["gpu"] = torch.cuda.get_device_name(run_plan.device)
    with (
        runtime(config, cluster) as supervised,
        new_run(run_dir, run_name(config.recipe, config.env, config.run.seed)) as directory,
    ):
        directory.write_config(asked, resolved, sys.argv, versions(), hardware)
        with directory.lock(), _progress(run_plan.config, quiet) as progress:
            progress.note(f"{config.recipe} on {config.env}: {directory.path}")
            warnings = warnings_about(run_plan.config, given, on_cluster=cluster is not None)
            for decision in (*run_plan.decisions, *warnings):
                progress.note(decision)
            _remember(source, network or config.network.network, progress)
            outcome = run_system(run_plan, directory, progress, None, supervised)
    return Run(directory.path, outcome.reason, config.run.until, outcome.summary)


@flush_denormals()
def resume(
    run: str | Path,
    *,
    env: Env | None = None,
    network: Network | None = None,
    trust: bool = False,
    cluster: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Goes on from a run's newest whole checkpoint, on the CPU bit for bit as if it had never stopped.

    Args:
        run: its directory.
        env, network, trust: as for `load`; what is used is remembered as your own code.
        cluster: as for `train`, wherever the run was trained before.
        quiet: shows no progress.
        settings: changes to how long it runs (`steps`, `until`), how it is recorded (`checkpoint_every`,
            `keep_checkpoints`, `checkpoint_replay`, `log_every`) and evaluated (`evaluate_every`, `evaluate_steps`).

    Raises:
        UsageError: there is no such run, another process trains it, something cannot change, or a file of the run is a
            link.
        CheckpointError: no checkpoint is whole, or the newest is of another recipe.
        EnvError: the environment failed.
    """
    directory = RunDirectory.open(Path(run))
    if fixed := sorted(set(settings) - set(RESUMABLE)):
        raise UsageError(
            f"--{fixed[0].replace('_', '-')} cannot change when a run is resumed: only {', '.join(RESUMABLE)} can; "
            "start a new run instead"
        )
    refuse_links(directory.path)
    # The lock comes first: whoever trains in it now goes on writing checkpoints.
    with directory.lock():
        before = from_dict(directory.read_config()["resolved"])
        config = with_settings(before, settings)
        notes: list[str] = []
        checkpoint = CheckpointStore(directory.checkpoints).newest(notes.append)
        _check_recipe(checkpoint, config)
        _check_segments(checkpoint)
        if before.run.steps != config.run.steps < checkpoint.step:
            raise UsageError(
                f"--steps is {config.run.steps:,}, but {checkpoint.step:,} are done: give more, or leave it out"
            )
        chosen = admit(directory.path, config, Choice(env, network, trust), "resume(run, {})")
        run_plan = make_run_plan(chosen.config, chosen.source, chosen.network)
        with runtime(config, cluster) as supervised, _progress(run_plan.config, quiet) as progress:
            directory.change_config("run", settings)  # for the next time that it is resumed
            for note in notes:
                progress.note(note)
            _remember(chosen.source, chosen.network or chosen.config.network.network, progress)
            outcome = run_system(run_plan, directory, progress, checkpoint, supervised)
    return Run(directory.path, outcome.reason, config.run.until, outcome.summary)


def load(
    run: str | Path,
    *,
    best: bool = False,
    env: Env | None = None,
    network: Network | None = None,
    trust: bool = False,
    device: str = "cpu",
) -> Agent:
    """The policy of a run's newest whole checkpoint.

    Args:
        run: its directory.
        best: the checkpoint with the best mean return of 100 games instead (the newest if none has 100 games).
        env, network: instead of what the run names; needed again where they were callables that cannot be imported by
            name. Another environment than the run's, given by its name, is made without the run's `env_kwargs`.
        trust: imports what the run names as "module:function", though you have not trained with it on this machine: it
            can do all that you can. A run of yours needs no trust.
        device: where the policy computes: "auto", "cpu", "cuda" or "cuda:N".

    Raises:
        UsageError: there is no such run or device; `env` or `network` is needed; or the run names code that you have
            neither named nor trained with (the sentence says in which file it is).
        CheckpointError: no checkpoint is whole, or it is of another recipe.
        EnvError: the environment, of which one is made for its spaces, failed.
    """
    return _load(run, best, Choice(env, network, trust), device, "load(run, {})")


def _load(run: str | Path, best: bool, choice: Choice, device: str, call: str) -> Agent:
    """`call` as for `admit`."""
    target = choose_device(device)
    directory = RunDirectory.open(Path(run))
    chosen = admit(directory.path, from_dict(directory.read_config()["resolved"]), choice, call)
    config, source = chosen.config, chosen.source
    notes: list[str] = []
    store = CheckpointStore(directory.checkpoints)
    checkpoint = (store.best if best else store.newest)(notes.append)
    for note in notes:
        print(note, file=sys.stderr)
    _check_recipe(checkpoint, config)
    spec = probe_spec(source, config.atari)
    policy = make_network(config, spec, chosen.network)
    load_weights(apply_precision(policy, config.run.precision, target), checkpoint.groups["weights"])
    return Agent(config, source, spec, policy, path=directory.path, step=checkpoint.step, device=target)


def _agent(run: str | Path | Agent, best: bool, choice: Choice, call: str) -> Agent:
    if not isinstance(run, Agent):
        return _load(run, best, choice, "cpu", call)
    if choice.is_made:
        raise UsageError(
            "an agent has its environment and its network already: give env, network and trust to load"
        )
    return run


def evaluate(
    run: str | Path | Agent,
    *,
    episodes: int | None = None,
    protocol: str | None = None,
    starts: str | Path | None = None,
    seed: int = 0,
    greedy: bool = False,
    best: bool = False,
    env: Env | None = None,
    network: Network | None = None,
    trust: bool = False,
) -> Evaluation:
    """Plays games with a run's policy and returns their raw scores and their lengths (agent steps).

    Args:
        run: a run's directory, or what `load` returned, which stays on its device.
        episodes: games to play, at least 1; 30 if not given.
        protocol: "games" plays `episodes`; "atari" plays the run's `evaluate_steps` (125,000 unless it says otherwise),
            of which the whole games count, as published scores of value-learning agents are made; "human-starts" plays
            a game from each of `starts`, of which only what comes after the start counts (Nair et al. 2015). "games" if
            not given, or "human-starts" with `starts`.
        starts: a file that `record_starts` made.
        seed: 0 or more; fixes the games.
        greedy: the best action instead of exploring as the algorithm does in evaluation.
        best: as for `load`; an agent is what it is.
        env, network, trust: as for `load`.

    Raises:
        UsageError: a number is out of its range, an agent is given with another environment, or as for `load`.
        CheckpointError: as for `load`.
        EnvError: the environment failed.
    """
    protocol = protocol or ("games" if starts is None else "human-starts")
    if protocol not in PROTOCOLS:
        raise UsageError(f"--protocol is {protocol!r}: it must be one of {', '.join(PROTOCOLS)}")
    if (protocol == "human-starts") != (starts is not None):
        raise UsageError(
            "--protocol human-starts needs --starts, a file that `veldt record-starts` makes"
            if starts is None
            else f"--starts is {starts}, and --protocol {protocol} plays games from their beginning: leave one out"
        )
    if protocol != "games" and episodes is not None:
        plays = "a number of steps" if protocol == "atari" else "one game from each start"
        raise UsageError(
            f"--episodes is {episodes}, and --protocol {protocol} plays {plays}: leave one of them out"
        )
    if episodes is not None and episodes < 1:
        raise UsageError(f"--episodes is {episodes}: it must be at least 1")
    if seed < 0:
        raise UsageError(f"--seed is {seed}: it must be 0 or more")
    begun = None if starts is None else read_starts(Path(starts))
    agent = _agent(run, best, Choice(env, network, trust), "evaluate(run, {})")
    if begun is not None:
        begun.refuse_other(agent.source, agent.config.atari, agent.spec.action)
        return play_starts(agent, begun, seed=seed, greedy=greedy)
    if protocol == "atari":
        return play_steps(agent, agent.config.run.evaluate_steps, seed=seed, greedy=greedy)
    return play_episodes(agent, 30 if episodes is None else episodes, seed=seed, greedy=greedy)


def record_starts(
    run: str | Path | Agent,
    *,
    starts: int = 100,
    out: str | Path | None = None,
    seed: int = 0,
    greedy: bool = False,
    best: bool = False,
    env: Env | None = None,
    network: Network | None = None,
    trust: bool = False,
) -> Starts:
    """Plays whole games with a run's policy and writes a random point of each to a file, for `evaluate` to start from.

    Args:
        run: as for `evaluate`.
        starts: how many, at least 1.
        out: the new file; starts.safetensors in the run's directory if not given.
        seed, greedy, best, env, network, trust: as for `evaluate`; the games are others than those that an evaluation
            plays.

    Returns:
        What is in the file, its `path` included.

    Raises:
        UsageError: a number is out of its range, the file exists, the environment is not deterministic, or as for
            `load`.
        CheckpointError: as for `load`.
        EnvError: the environment failed.
        VeldtError: the disk refuses.
    """
    check_numbers(starts, seed)
    directory = run.path if isinstance(run, Agent) else RunDirectory.open(Path(run)).path
    path = directory / STARTS_NAME if out is None else Path(out)
    check_new_file(path)
    agent = _agent(run, best, Choice(env, network, trust), "record_starts(run, {})")
    recorded = record_from(agent, starts, path, seed=seed, greedy=greedy)
    recorded.write()
    return recorded


def list_recipes() -> dict[str, str]:
    """Names and one-line summaries of all recipes."""
    return {name: recipe.summary for name, recipe in RECIPES.items()}


def drawn(config: TrainConfig) -> list[str]:
    """Lines of text: the roles that a run of `config` has, and the edges between them."""
    run_plan = make_run_plan(config, resolve(config.env, config.env_kwargs))
    return list(run_plan.decisions) if config.in_one_process else graph_of(run_plan).drawn()


def _remember(source: EnvSource, network: Network, progress: Progress) -> None:
    if (note := remember_code(source, network)) is not None:
        progress.note(note)


def _progress(config: TrainConfig, quiet: bool) -> Progress:
    title = f"{config.recipe} · {config.env} · seed {config.run.seed}"
    return Progress(title, config.run.steps, config.run.until, stream=Silent() if quiet else None)


def _check_recipe(checkpoint: Checkpoint, config: TrainConfig) -> None:
    wrote = checkpoint.meta.get("recipe")
    if wrote != config.recipe:
        raise CheckpointError(
            f"{checkpoint.path} was written by recipe '{wrote}', and this run's is '{config.recipe}': it was put here "
            "from another run; remove it"
        )


def _check_segments(checkpoint: Checkpoint) -> None:
    try:
        refuse_other_segments(checkpoint.meta)
    except CheckpointError as error:
        raise CheckpointError(
            f"the manifest of {checkpoint.path} was not written by veldt ({error}): remove this checkpoint"
        ) from None
