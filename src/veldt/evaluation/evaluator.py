"""The evaluator: plays whole games and reports their raw scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from veldt.agent import Agent
from veldt.envs.arrangement import make_simulators, plan
from veldt.envs.env import StepperSettings
from veldt.envs.seeding import EVALUATION, derive_seed, uniform
from veldt.envs.settings import SimulationConfig
from veldt.evaluation.start_replayer import Prefixes
from veldt.sampling.episodes import EpisodeBook, Game
from veldt.sampling.observations import slot_observations

_ROWS = 32  # steps between looks at which games are finished, at most
_WIDTH = 4  # simulators of an evaluation by steps, where it is not known how long a game can be


@dataclass(frozen=True)
class Evaluation:
    """Raw scores and lengths (agent steps) of games, in the order of their start; of what followed a recorded one."""

    scores: list[float]
    lengths: list[int]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))


def play_games(agent: Agent, episodes: int, *, seed: int, greedy: bool) -> Evaluation:
    """Plays `episodes` whole games.

    Which games count is fixed before they are played (the first ones of each simulator): taking whichever finish first
    would favour short games.
    """
    return _evaluation(whole_games(agent, episodes, seed=seed, greedy=greedy))


def whole_games(agent: Agent, episodes: int, *, seed: int, greedy: bool) -> list[Game]:
    """The games of `play_games`, in the order of their start; their simulators' seeds are of `run_seed_of(seed)`."""
    width = min(episodes, agent.config.simulation.num_simulators)
    wanted = [len(range(b, episodes, width)) for b in range(width)]
    with playing(agent, width, seed, greedy) as rows:
        return stretches_until(rows, episodes, lambda game: game.episode < wanted[game.simulator])


def stretches_until(rows: Iterator[list[Game]], games: int, counts: Callable[[Game], bool]) -> list[Game]:
    """Plays until there are so many games that count; these, in the order of their start."""
    played: list[Game] = []
    while len(played) < games:
        played += filter(counts, next(rows))
    return _in_order(played)


def play_steps(
    agent: Agent, steps: int, *, seed: int, greedy: bool, stopped: Callable[[], bool] = lambda: False
) -> Evaluation:
    """Plays `steps`, of which the whole games count (Mnih et al. 2015: 125,000 steps, games of at most 27,000).

    So few simulators share the steps that each has room for the longest game: a long game must be as likely to end in
    time as a short one. Ends at once, with the games so far, when `stopped` says so. What an environment that fails
    does is the run's `on_env_error`; a game that was cut off does not count.
    """
    longest = agent.config.atari.max_episode_steps if agent.source.is_atari else max(1, steps // _WIDTH)
    width = max(1, min(steps // longest, agent.config.simulation.num_simulators))
    share = max(1, steps // width)
    # The stretch that comes nearest to filling the share.
    stretch = min(range(min(share, _ROWS // 2), min(share, _ROWS) + 1), key=lambda rows: share % rows)
    played: list[Game] = []
    on_error = agent.config.simulation.on_env_error
    with playing(agent, width, seed, greedy, stretch, on_error) as rows:
        for _ in range(share // stretch):
            played += next(rows)
            if stopped():
                break
    return _evaluation(_in_order(played))


def run_seed_of(seed: int) -> int:
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
    prefixes: Prefixes | None = None,
) -> Iterator[Iterator[list[Game]]]:
    """Simulators of their own, and the games that end in each next `rows` of theirs.

    `prefixes` lead the first games of the simulators to their starts; all their games are from their beginning else.
    """
    config = agent.config
    trained = config.simulation
    simulation = SimulationConfig(
        num_simulators=width,
        simulators=trained.simulators,
        processes=min(trained.processes, width),
        alternate="off",
        on_env_error=on_error,
        env_timeout=trained.env_timeout,
    )
    run_seed = run_seed_of(seed)
    atari = config.atari if prefixes is None else prefixes.emulator(config.atari)
    seeds = () if prefixes is None else prefixes.seeds
    settings = StepperSettings(agent.source, run_seed, simulation, atari, seeds=seeds)
    chosen = plan(agent.source, simulation, atari, 0)
    simulators = make_simulators(settings, agent.spec, rows, chosen, stacks=True)
    try:
        slot = simulators.trajectory
        book = EpisodeBook(width, simulators.start())
        observations = slot_observations(slot, torch.device("cpu"))
        memories = agent.memories(width)

        def stretches() -> Iterator[list[Game]]:
            first_step = 0
            while True:
                step_T = np.arange(first_step, first_step + rows)
                noise_TBK = uniform(run_seed, EVALUATION, np.arange(width), step_T, agent.noise)
                for t in range(rows):
                    if prefixes is not None:
                        prefixes.check(simulators, t)
                    for group, part in enumerate(simulators.groups):
                        forward = memories.at(part, slot.age[t, part])
                        slot.action[t, part] = agent.choose(
                            observations.row(t, part), noise_TBK[t, part], greedy, forward
                        )
                        if prefixes is not None:
                            prefixes.prescribe(slot, t, part)
                        simulators.step(group, t)
                    for group in range(len(simulators.groups)):
                        simulators.wait(group, t)
                    if prefixes is not None:
                        prefixes.discount(slot, t)
                yield book.add(slot)
                simulators.carry_over()
                first_step += rows

        yield stretches()
    finally:
        simulators.close()


def _in_order(played: list[Game]) -> list[Game]:
    return sorted(played, key=lambda game: (game.episode, game.simulator))


def _evaluation(played: list[Game]) -> Evaluation:
    return Evaluation([game.score for game in played], [game.length for game in played])
