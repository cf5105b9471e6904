"""The evaluator: plays complete episodes and reports their raw returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from veldt.agent import Agent
from veldt.envs.arrangement import make_vector_envs, plan
from veldt.envs.env import StepperSettings
from veldt.envs.seeding import EVALUATION, derive_seed, uniform
from veldt.envs.settings import EnvConfig
from veldt.evaluation.start_replayer import StartReplayer
from veldt.sampling.episodes import Episode, EpisodeTracker
from veldt.sampling.observations import slot_observations

_ROWS = 32  # maximum number of steps between checks for finished episodes
_WIDTH = 4  # envs in an evaluation by steps, if the maximum episode length is not known


@dataclass(frozen=True)
class Evaluation:
    """Raw returns and lengths (agent steps) of episodes, by start; with recorded starts, of the part after these."""

    scores: list[float]
    lengths: list[int]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))


def play_episodes(agent: Agent, episodes: int, *, seed: int, greedy: bool) -> Evaluation:
    """Plays `episodes` complete episodes.

    The episodes that count are fixed in advance (the first ones of each env): to take those that finish first would
    favour short episodes.
    """
    return _evaluation(whole_episodes(agent, episodes, seed=seed, greedy=greedy))


def whole_episodes(agent: Agent, episodes: int, *, seed: int, greedy: bool) -> list[Episode]:
    """Returns the episodes of `play_episodes`, ordered by start; env seeds come from `evaluation_run_seed(seed)`."""
    width = min(episodes, agent.config.envs.num_envs)
    wanted = [len(range(b, episodes, width)) for b in range(width)]
    with playing(agent, width, seed, greedy) as rows:
        return play_until(rows, episodes, lambda episode: episode.episode < wanted[episode.env_index])


def play_until(
    rows: Iterator[list[Episode]], num_episodes: int, counts: Callable[[Episode], bool]
) -> list[Episode]:
    """Plays until this many episodes count. Returns these, ordered by start."""
    played: list[Episode] = []
    while len(played) < num_episodes:
        played += filter(counts, next(rows))
    return _in_order(played)


def play_steps(
    agent: Agent, steps: int, *, seed: int, greedy: bool, stopped: Callable[[], bool] = lambda: False
) -> Evaluation:
    """Plays `steps` steps and counts the episodes that end in them (Mnih et al. 2015: 125,000 steps, maximum 27,000).

    The number of envs is small enough that each has steps for the longest episode, because long episodes must be as
    likely to end in time as short ones. Stops early, with the episodes so far, when `stopped` returns True. The run's
    `on_env_error` decides what happens when an env fails; an interrupted episode does not count.
    """
    longest = agent.config.atari.max_episode_steps if agent.source.is_atari else max(1, steps // _WIDTH)
    width = max(1, min(steps // longest, agent.config.envs.num_envs))
    env_steps = max(1, steps // width)
    # The number of rows per chunk that leaves the smallest remainder of the env's steps.
    chunk = min(
        range(min(env_steps, _ROWS // 2), min(env_steps, _ROWS) + 1), key=lambda rows: env_steps % rows
    )
    played: list[Episode] = []
    on_error = agent.config.envs.on_env_error
    with playing(agent, width, seed, greedy, chunk, on_error) as rows:
        for _ in range(env_steps // chunk):
            played += next(rows)
            if stopped():
                break
    return _evaluation(_in_order(played))


def evaluation_run_seed(seed: int) -> int:
    """Returns the run seed for an evaluation with this seed; the episodes' seeds are derived from it."""
    return derive_seed(seed, EVALUATION)


@contextmanager
def playing(
    agent: Agent,
    width: int,
    seed: int,
    greedy: bool,
    rows: int = _ROWS,
    on_error: Literal["stop", "restart"] = "stop",
    prefixes: StartReplayer | None = None,
) -> Iterator[Iterator[list[Episode]]]:
    """Makes envs for an evaluation. Yields an iterator whose items are the episodes that end in the next `rows` rows.

    `prefixes` leads the first episodes of the envs to their starts; all other episodes are played from the reset.
    """
    config = agent.config
    trained = config.envs
    env_config = EnvConfig(
        num_envs=width,
        env_backend=trained.env_backend,
        processes=min(trained.processes, width),
        alternate="off",
        on_env_error=on_error,
        env_timeout=trained.env_timeout,
    )
    run_seed = evaluation_run_seed(seed)
    atari = config.atari if prefixes is None else prefixes.emulator(config.atari)
    seeds = () if prefixes is None else prefixes.seeds
    settings = StepperSettings(agent.source, run_seed, env_config, atari, seeds=seeds)
    env_plan = plan(agent.source, env_config, atari, 0)
    envs = make_vector_envs(settings, agent.spec, rows, env_plan, stacks=True)
    try:
        slot = envs.trajectory
        tracker = EpisodeTracker(width, envs.start())
        observations = slot_observations(slot, torch.device("cpu"))
        recurrent_state = agent.initial_recurrent_state(width)

        def chunks() -> Iterator[list[Episode]]:
            first_step = 0
            while True:
                step_T = np.arange(first_step, first_step + rows)
                noise_TBK = uniform(run_seed, EVALUATION, np.arange(width), step_T, agent.noise)
                for t in range(rows):
                    if prefixes is not None:
                        prefixes.check(envs, t)
                    for group, part in enumerate(envs.groups):
                        forward = recurrent_state.at(part, slot.episode_step[t, part])
                        slot.action[t, part] = agent.choose(
                            observations.row(t, part), noise_TBK[t, part], greedy, forward
                        )
                        if prefixes is not None:
                            prefixes.override_actions(slot, t, part)
                        envs.step(group, t)
                    for group in range(len(envs.groups)):
                        envs.wait(group, t)
                    if prefixes is not None:
                        prefixes.subtract_rewards(slot, t)
                yield tracker.add(slot)
                envs.start_next_rollout()
                first_step += rows

        yield chunks()
    finally:
        envs.close()


def _in_order(played: list[Episode]) -> list[Episode]:
    return sorted(played, key=lambda episode: (episode.episode, episode.env_index))


def _evaluation(played: list[Episode]) -> Evaluation:
    return Evaluation([episode.episode_return for episode in played], [episode.length for episode in played])
