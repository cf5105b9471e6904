"""The public Python face: train, resume, evaluate, load, recipes."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import torch
from torch import nn

from veldt.agent import Agent, make_network
from veldt.config import TrainConfig, from_dict, to_dict
from veldt.errors import CheckpointError, UsageError, did_you_mean
from veldt.networks.precision import apply_precision
from veldt.recipe_book import RECIPES, find
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.progress import Progress
from veldt.simulators.choose import plan, probe_spec
from veldt.simulators.settings import SimulationConfig
from veldt.simulators.source import EnvSource, resolve
from veldt.systems.assembly import assemble, versions
from veldt.systems.evaluator import Evaluation
from veldt.systems.evaluator import evaluate as play
from veldt.systems.learner import load_weights
from veldt.systems.synchronous import Synchronous

Env = str | Callable[..., gymnasium.Env[Any, Any]]
Network = str | Callable[[Any], nn.Module]


@dataclass(frozen=True)
class Run:
    """A run that has stopped: where it is, why it stopped ("steps", "until" or "interrupted"), its figures."""

    path: Path
    reason: str
    summary: Mapping[str, Any] = field(repr=False)


def train(
    recipe: str = "ppo",
    *,
    env: Env,
    env_kwargs: Mapping[str, Any] | None = None,
    network: Network | None = None,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Trains until its steps are done or its score is reached, and returns the run.

    Args:
        recipe: "a2c" or "ppo"; see `veldt recipes`.
        env: a Gymnasium id, "module:function", or a callable returning an environment.
        env_kwargs: passed to whatever makes the environment.
        network: a name, "module:function", or a callable from an observation's shape to an `nn.Module` that maps
            observations [N, ...] to features [N, F].
        run_dir: the directory to make for the run; default `runs/<recipe>-<env>-<seed>`.
        quiet: shows no progress.
        settings: any setting of the recipe by name: `steps=100_000, until=475, seed=3, learning_rate=1e-3`.

    Raises:
        UsageError: something asked for cannot be done as asked.
        SimulatorError: the environment failed.
    """
    source = resolve(env, env_kwargs)
    config = with_settings(find(recipe).config(source.name), settings)
    config = dataclasses.replace(config, env_kwargs=dict(env_kwargs or {}))
    if isinstance(network, str):
        config = with_settings(config, {"network": network})
    return train_config(config, source, None if isinstance(network, str) else network, run_dir, quiet)


def train_config(
    config: TrainConfig,
    source: EnvSource | None = None,
    network: Callable[[Any], nn.Module] | None = None,
    run_dir: str | Path | None = None,
    quiet: bool = False,
) -> Run:
    """Trains as a whole configuration says; `source` and `network` where they are not named by it."""
    source = source or resolve(config.env, config.env_kwargs)
    assembly = assemble(config, source, network)
    directory = _create(run_dir, config)
    given = to_dict(config)
    if network is not None:
        given["network"]["network"] = f"{network.__module__}:{getattr(network, '__qualname__', network)}"
    hardware = {"gpu": torch.cuda.get_device_name()} if assembly.device.type == "cuda" else {}
    resolved = to_dict(assembly.config)
    resolved["network"]["network"] = given["network"]["network"]
    directory.write_config(given, resolved, sys.argv, versions(), hardware)
    with directory.lock(), _progress(assembly.config, quiet) as progress:
        progress.note(f"{config.recipe} on {config.env}: {directory.path}")
        for decision in assembly.decisions:
            progress.note(decision)
        outcome = Synchronous(assembly, directory, progress, None).run()
    return Run(directory.path, outcome.reason, outcome.summary)


def resume(
    run: str | Path,
    *,
    env: Env | None = None,
    network: Callable[[Any], nn.Module] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Goes on from a run's newest whole checkpoint, on the CPU bit for bit as if it had never stopped.

    `env` and `network` are needed again where they were callables that cannot be imported by name. `settings` may
    change how long it runs (`steps`, `until`) and how it is recorded.
    """
    directory = RunDirectory.open(Path(run))
    stored = from_dict(directory.read_config()["resolved"])
    unchangeable = set(settings) - {"steps", "until", "checkpoint_every", "keep_checkpoints", "log_every"}
    if unchangeable:
        raise UsageError(
            f"--{sorted(unchangeable)[0].replace('_', '-')} cannot change when a run is resumed: only steps, until, "
            "checkpoint-every, keep-checkpoints and log-every can; start a new run instead"
        )
    config = with_settings(stored, settings)
    source = _source_again(config, env)
    notes: list[str] = []
    checkpoint = CheckpointStore(directory.checkpoints).newest(notes.append)
    _check_recipe(checkpoint, config)
    assembly = assemble(config, source, network)
    with directory.lock(), _progress(assembly.config, quiet) as progress:
        for note in notes:
            progress.note(note)
        outcome = Synchronous(assembly, directory, progress, checkpoint).run()
    return Run(directory.path, outcome.reason, outcome.summary)


def load(
    run: str | Path,
    *,
    best: bool = False,
    env: Env | None = None,
    network: Callable[[Any], nn.Module] | None = None,
    device: str = "cpu",
) -> Agent:
    """The policy of a run's newest (or best) whole checkpoint."""
    directory = RunDirectory.open(Path(run))
    config = from_dict(directory.read_config()["resolved"])
    source = _source_again(config, env)
    notes: list[str] = []
    store = CheckpointStore(directory.checkpoints)
    checkpoint = (store.best if best else store.newest)(notes.append)
    for note in notes:
        print(note, file=sys.stderr)
    _check_recipe(checkpoint, config)
    spec = probe_spec(source, config.atari)
    policy = make_network(config, spec, network)
    target = torch.device(device)
    load_weights(apply_precision(policy, config.run.precision, target), checkpoint.groups["weights"])
    return Agent(config, source, spec, policy, path=directory.path, step=checkpoint.step, device=target)


def evaluate(
    run: str | Path | Agent, *, episodes: int = 30, seed: int = 0, greedy: bool = False, best: bool = False
) -> Evaluation:
    """Plays whole games with a run's policy and returns their raw scores. `seed` fixes the games."""
    if episodes < 1:
        raise UsageError(f"--episodes is {episodes}: it must be at least 1")
    if seed < 0:
        raise UsageError(f"--seed is {seed}: it must be 0 or more")
    agent = run if isinstance(run, Agent) else load(run, best=best)
    count = min(episodes, agent.config.simulation.num_simulators)
    simulation = SimulationConfig(num_simulators=count, alternate="off")
    chosen = plan(agent.source, simulation, agent.config.atari, 0)
    return play(agent, chosen, episodes=episodes, seed=seed, greedy=greedy)


def recipes() -> dict[str, str]:
    """Names and one-line summaries of all recipes."""
    return {name: recipe.summary for name, recipe in RECIPES.items()}


def with_settings(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """`config` with settings replaced by name, in whichever section each belongs."""
    sections = ("run", "learn", "network", "simulation", "atari")
    fields = {section: {f.name for f in dataclasses.fields(getattr(config, section))} for section in sections}
    known = sorted(set().union(*fields.values()))
    changes: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        owners = [section for section in sections if name in fields[section]]
        if not owners:
            raise UsageError(
                f"no setting '{name}'{did_you_mean(name, known)}: see `veldt recipes {config.recipe}`"
            )
        changes.setdefault(owners[0], {})[name] = value
    replaced = {s: dataclasses.replace(getattr(config, s), **values) for s, values in changes.items()}
    return dataclasses.replace(config, **replaced)


def parse_kwargs(text: str) -> dict[str, Any]:
    """Keyword arguments of an environment given as a JSON object."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--env-kwargs is not JSON ({error}): write it as '{{\"name\": value}}'") from None
    if not isinstance(values, dict):
        raise UsageError(
            f"--env-kwargs is a JSON {type(values).__name__}: it must be an object, '{{\"name\": value}}'"
        )
    return values


def _create(run_dir: str | Path | None, config: TrainConfig) -> RunDirectory:
    if run_dir is None:
        env = "".join(c if c.isalnum() or c in "-_." else "-" for c in config.env)
        return RunDirectory.create(Path("runs"), f"{config.recipe}-{env}-{config.run.seed}")
    path = Path(run_dir)
    if path.exists():
        raise UsageError(f"--run-dir {path} exists already: name a new directory, or `veldt resume {path}`")
    return RunDirectory.create(path.parent, path.name)


def _progress(config: TrainConfig, quiet: bool) -> Progress:
    title = f"{config.recipe} · {config.env} · seed {config.run.seed}"
    return Progress(title, config.run.steps, config.run.until, stream=_Silent() if quiet else None)


class _Silent(io.StringIO):
    """A stream that shows nothing and keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


def _source_again(config: TrainConfig, env: Env | None) -> EnvSource:
    if env is not None:
        return resolve(env, config.env_kwargs)
    if config.env.startswith("__main__:") or "<" in config.env:
        raise UsageError(
            f"the run's environment {config.env} was a callable that cannot be imported by its name: pass it again, "
            "resume(run, env=...)"
        )
    return resolve(config.env, config.env_kwargs)


def _check_recipe(checkpoint: Checkpoint, config: TrainConfig) -> None:
    wrote = checkpoint.meta.get("recipe")
    if wrote != config.recipe:
        raise CheckpointError(
            f"{checkpoint.path} was written by recipe '{wrote}', and this run's is '{config.recipe}': it was put here "
            "from another run; remove it"
        )
