"""The evaluator: plays whole games and reports their raw scores."""

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

_ROWS = 32  # steps between looks at which games are finished, at most
_WIDTH = 4  # envs of an evaluation by steps, where it is not known how long a game can be


@dataclass(frozen=True)
class Evaluation:
    """Raw scores and lengths (agent steps) of games, in the order of their start; of what followed a recorded one."""

    scores: list[float]
    lengths: list[int]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))


def play_episodes(agent: Agent, episodes: int, *, seed: int, greedy: bool) -> Evaluation:
    """Plays `episodes` whole games.

    Which games count is fixed before they are played (the first ones of each env): taking whichever finish first
    would favour short games.
    """
    return _evaluation(whole_episodes(agent, episodes, seed=seed, greedy=greedy))


def whole_episodes(agent: Agent, episodes: int, *, seed: int, greedy: bool) -> list[Episode]:
    """The games of `play_episodes`, in the order of their start; their envs' seeds are of `run_seed_of(seed)`."""
    width = min(episodes, agent.config.envs.num_envs)
    wanted = [len(range(b, episodes, width)) for b in range(width)]
    with playing(agent, width, seed, greedy) as rows:
        return play_until(rows, episodes, lambda game: game.episode < wanted[game.env_index])


def play_until(rows: Iterator[list[Episode]], games: int, counts: Callable[[Episode], bool]) -> list[Episode]:
    """Plays until there are so many games that count; these, in the order of their start."""
    played: list[Episode] = []
    while len(played) < games:
        played += filter(counts, next(rows))
    return _in_order(played)


def play_steps(
    agent: Agent, steps: int, *, seed: int, greedy: bool, stopped: Callable[[], bool] = lambda: False
) -> Evaluation:
    """Plays `steps`, of which the whole games count (Mnih et al. 2015: 125,000 steps, games of at most 27,000).

    So few envs share the steps that each has room for the longest game: a long game must be as likely to end in
    time as a short one. Ends at once, with the games so far, when `stopped` says so. What an environment that fails
    does is the run's `on_env_error`; a game that was cut off does not count.
    """
    longest = agent.config.atari.max_episode_steps if agent.source.is_atari else max(1, steps // _WIDTH)
    width = max(1, min(steps // longest, agent.config.envs.num_envs))
    share = max(1, steps // width)
    # The stretch that comes nearest to filling the share.
    stretch = min(range(min(share, _ROWS // 2), min(share, _ROWS) + 1), key=lambda rows: share % rows)
    played: list[Episode] = []
    on_error = agent.config.envs.on_env_error
    with playing(agent, width, seed, greedy, stretch, on_error) as rows:
        for _ in range(share // stretch):
            played += next(rows)
            if stopped():
                break
    return _evaluation(_in_order(played))


def evaluation_run_seed(seed: int) -> int:
    """The run seed, of which the episodes' seeds are made, of an evaluation with this seed."""
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
    """Envs of their own, and the games that end in each next `rows` of theirs.

    `prefixes` lead the first games of the envs to their starts; all their games are from their beginning else.
    """
    config = agent.config
    trained = config.envs
    simulation = EnvConfig(
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
    settings = StepperSettings(agent.source, run_seed, simulation, atari, seeds=seeds)
    chosen = plan(agent.source, simulation, atari, 0)
    envs = make_vector_envs(settings, agent.spec, rows, chosen, stacks=True)
    try:
        slot = envs.trajectory
        book = EpisodeTracker(width, envs.start())
        observations = slot_observations(slot, torch.device("cpu"))
        memories = agent.memories(width)

        def stretches() -> Iterator[list[Episode]]:
            first_step = 0
            while True:
                step_T = np.arange(first_step, first_step + rows)
                noise_TBK = uniform(run_seed, EVALUATION, np.arange(width), step_T, agent.noise)
                for t in range(rows):
                    if prefixes is not None:
                        prefixes.check(envs, t)
                    for group, part in enumerate(envs.groups):
                        forward = memories.at(part, slot.age[t, part])
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
                yield book.add(slot)
                envs.carry_over()
                first_step += rows

        yield stretches()
    finally:
        envs.close()


def _in_order(played: list[Episode]) -> list[Episode]:
    return sorted(played, key=lambda game: (game.episode, game.env_index))


def _evaluation(played: list[Episode]) -> Evaluation:
    return Evaluation([game.episode_return for game in played], [game.length for game in played])
