"""The public functions that use a trained policy: load, evaluate and record_starts."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from veldt.agent import Agent
from veldt.api.foreign_arguments import answers
from veldt.api.loading import load_agent
from veldt.config.run_code import CodeChoice, Env, Part
from veldt.errors import UsageError
from veldt.evaluation.evaluator import Evaluation, play_episodes, play_steps
from veldt.evaluation.foreign_names import OF_EVALUATE, OF_LOAD, OF_RECORD_STARTS, answer
from veldt.evaluation.human_starts import play_starts, record_from
from veldt.evaluation.starts import Starts, check_numbers, read_starts
from veldt.evaluation.starts_file import STARTS_NAME, check_new_file
from veldt.networks.own import OwnParts
from veldt.runs.directory import RunDirectory
from veldt.runs.files import from_here
from veldt.runtime.cores import allowed_cores
from veldt.runtime.usual_torch import usual_torch
from veldt.setting_metadata import check_path, check_type
from veldt.setting_text import flag
from veldt.user_code.attribution import naming_user_code

PROTOCOLS = ("episodes", "atari", "human-starts")


@answers(partial(answer, OF_LOAD))
@naming_user_code()
@usual_torch()
def load(
    run: str | os.PathLike[str],
    *,
    best: bool = False,
    env: Env | None = None,
    network: Part | None = None,
    core: Part | None = None,
    actor: Part | None = None,
    critic: Part | None = None,
    model: Part | None = None,
    trust: bool = False,
    device: str = "cpu",
) -> Agent:
    """Returns the policy of a run's newest complete checkpoint, or that of an export.

    Args:
        run: the run directory, or the directory of an export.
        best: use the checkpoint with the best mean return over 100 episodes (the newest if none has 100 episodes).
        env, network, core, actor, critic, model: replace those of the run. They are required if the run used callables
            that cannot be imported by name. A different env given by name is made without the run's `env_kwargs`.
        trust: import the code that the run names as "module:function" even if you have not trained with it on this
            machine. Such code can do everything that you can. Your own runs do not need it.
        device: where the policy computes: "auto", "cpu", "cuda" or "cuda:N".

    Raises:
        UsageError: the run or the device does not exist; `env` or `network` is required; or the run names code that you
            have neither named nor trained with (the message names the file).
        CheckpointError: no checkpoint is complete, or it belongs to another recipe.
        EnvError: the env failed (one is made to read its spaces).
    """
    return load_agent(
        run,
        best,
        CodeChoice(env, OwnParts(network, core, actor, critic, model), trust),
        device,
        "load(run, {})",
    )


def _agent(run: str | os.PathLike[str] | Agent, best: bool, choice: CodeChoice, call: str) -> Agent:
    """Returns the agent of `run`, and sets torch's number of threads to that of the run.

    With a second thread a small network computes more slowly, and several times more slowly where other programs need
    the cores. `usual_torch` restores the number.
    """
    agent = _loaded(run, best, choice, call)
    if threads := agent.config.run.threads:
        torch.set_num_threads(min(threads, len(allowed_cores())))
    return agent


def _loaded(run: str | os.PathLike[str] | Agent, best: bool, choice: CodeChoice, call: str) -> Agent:
    if not isinstance(run, Agent):
        return load_agent(run, best, choice, "cpu", call)
    if choice.is_made:
        raise UsageError(
            "an agent has its environment and its network already: give env, trust and parts of the network to load"
        )
    return run


@answers(partial(answer, OF_EVALUATE))
@naming_user_code()
@usual_torch()
def evaluate(
    run: str | os.PathLike[str] | Agent,
    *,
    episodes: int | None = None,
    protocol: str | None = None,
    starts: str | Path | None = None,
    seed: int = 0,
    greedy: bool = False,
    best: bool = False,
    env: Env | None = None,
    network: Part | None = None,
    core: Part | None = None,
    actor: Part | None = None,
    critic: Part | None = None,
    model: Part | None = None,
    trust: bool = False,
) -> Evaluation:
    """Plays episodes with a run's policy. Returns their raw returns and their lengths in agent steps.

    Args:
        run: the run directory, an export, or an agent from `load`, which stays on its device.
        episodes: number of episodes, at least 1; default 30.
        protocol: "episodes" plays `episodes`. "atari" plays the run's `evaluate_steps` (default 125,000) and counts the
            episodes that end within them, as in published results of value-based agents. "human-starts" plays one
            episode from each of `starts` and counts only what follows the start (Nair et al. 2015). Default:
            "episodes", or "human-starts" if `starts` is given.
        starts: a file written by `record_starts`.
        seed: 0 or more; determines the episodes.
        greedy: take the best action instead of exploring as the algorithm does in evaluation.
        best: as for `load`; without effect on an agent.
        env, network, core, actor, critic, model, trust: as for `load`.

    Raises:
        UsageError: a number is out of range, an agent is given together with an env, a part of the network or trust; or
            as for `load`.
        CheckpointError: as for `load`.
        EnvError: the env failed.
    """
    episodes = check_type(flag("episodes"), episodes, int | None)
    check_path(flag("starts"), starts)
    seed = check_type(flag("seed"), seed, int)
    greedy = check_type(flag("greedy"), greedy, bool)
    protocol = protocol or ("episodes" if starts is None else "human-starts")
    if protocol not in PROTOCOLS:
        raise UsageError(f"--protocol is {protocol!r}: it must be one of {', '.join(PROTOCOLS)}")
    if (protocol == "human-starts") != (starts is not None):
        raise UsageError(
            "--protocol human-starts needs --starts, a file that `veldt record-starts` makes"
            if starts is None
            else f"--starts is {starts}, and --protocol {protocol} plays episodes from their beginning: leave one out"
        )
    if protocol != "episodes" and episodes is not None:
        plays = "a number of steps" if protocol == "atari" else "one episode from each start"
        raise UsageError(
            f"--episodes is {episodes}, and --protocol {protocol} plays {plays}: leave one of them out"
        )
    if episodes is not None and episodes < 1:
        raise UsageError(f"--episodes is {episodes}: it must be at least 1")
    if seed < 0:
        raise UsageError(f"--seed is {seed}: it must be 0 or more")
    recorded = None if starts is None else read_starts(Path(starts))
    choice = CodeChoice(env, OwnParts(network, core, actor, critic, model), trust)
    agent = _agent(run, best, choice, "evaluate(run, {})")
    if recorded is not None:
        recorded.refuse_other(agent.source, agent.config.atari, agent.spec.action)
        return play_starts(agent, recorded, seed=seed, greedy=greedy)
    if protocol == "atari":
        return play_steps(agent, agent.config.run.evaluate_steps, seed=seed, greedy=greedy)
    return play_episodes(agent, 30 if episodes is None else episodes, seed=seed, greedy=greedy)


@answers(partial(answer, OF_RECORD_STARTS))
@naming_user_code()
@usual_torch()
def record_starts(
    run: str | os.PathLike[str] | Agent,
    *,
    starts: int = 100,
    out: str | Path | None = None,
    seed: int = 0,
    greedy: bool = False,
    best: bool = False,
    env: Env | None = None,
    network: Part | None = None,
    core: Part | None = None,
    actor: Part | None = None,
    critic: Part | None = None,
    model: Part | None = None,
    trust: bool = False,
) -> Starts:
    """Plays episodes with a run's policy and writes a random step of each to a file, as starts for `evaluate`.

    Args:
        run: as for `evaluate`.
        starts: number of starts, at least 1.
        out: the file to create; default starts.safetensors in the run directory.
        seed, greedy, best, env, network, core, actor, critic, model, trust: as for `evaluate`. The episodes differ from
            those that `evaluate` plays with the same seed.

    Returns:
        The content of the file, including its `path`.

    Raises:
        UsageError: a number is out of range, the file exists, the env is not deterministic, or as for `load`.
        CheckpointError: as for `load`.
        EnvError: the env failed.
        VeldtError: the file could not be written.
    """
    starts, seed = check_numbers(starts, seed)
    check_path(flag("out"), out)
    greedy = check_type(flag("greedy"), greedy, bool)
    directory = run.path if isinstance(run, Agent) else RunDirectory.open(run).path
    path = directory / STARTS_NAME if out is None else Path(out)
    place = path.absolute()
    check_new_file(path)
    choice = CodeChoice(env, OwnParts(network, core, actor, critic, model), trust)
    agent = _agent(run, best, choice, "record_starts(run, {})")
    recorded = record_from(agent, starts, place, seed=seed, greedy=greedy)
    recorded.write()
    return replace(recorded, path=from_here(path, place))
