"""The evaluator: plays whole games and reports their raw scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from veldt.agent import Agent
from veldt.simulators.choose import make_simulators, plan
from veldt.simulators.seeding import EVALUATION, derive_seed, uniform
from veldt.simulators.settings import SimulationConfig
from veldt.simulators.simulator import StepperSettings
from veldt.systems.episodes import EpisodeBook, Game
from veldt.systems.observations import slot_observations

_ROWS = 32  # steps between looks at which games are finished, at most
_WIDTH = 4  # simulators of an evaluation by steps, where it is not known how long a game can be


@dataclass(frozen=True)
class Evaluation:
    """Raw scores and lengths (agent steps) of whole games, in the order of their start."""

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
    width = min(episodes, agent.config.simulation.num_simulators)
    wanted = [len(range(b, episodes, width)) for b in range(width)]
    played: list[Game] = []
    with _playing(agent, width, _ROWS, seed, greedy) as rows:
        while len(played) < episodes:
            played += [game for game in next(rows) if game.episode < wanted[game.simulator]]
    return _evaluation(played)


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
    with _playing(agent, width, stretch, seed, greedy, on_error) as rows:
        for _ in range(share // stretch):
            played += next(rows)
            if stopped():
                break
    return _evaluation(played)


@contextmanager
def _playing(
    agent: Agent,
    width: int,
    rows: int,
    seed: int,
    greedy: bool,
    on_error: Literal["stop", "restart"] = "stop",
) -> Iterator[Iterator[list[Game]]]:
    """Simulators of their own, and the games that end in each next `rows` of theirs."""
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
    run_seed = derive_seed(seed, EVALUATION)
    settings = StepperSettings(agent.source, run_seed, simulation, config.atari)
    chosen = plan(agent.source, simulation, config.atari, 0)
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
                    for group, part in enumerate(simulators.groups):
                        forward = memories.at(part, slot.age[t, part])
                        slot.action[t, part] = agent.choose(
                            observations.row(t, part), noise_TBK[t, part], greedy, forward
                        )
                        simulators.step(group, t)
                    for group in range(len(simulators.groups)):
                        simulators.wait(group, t)
                yield book.add(slot)
                simulators.carry_over()
                first_step += rows

        yield stretches()
    finally:
        simulators.close()


def _evaluation(played: list[Game]) -> Evaluation:
    played.sort(key=lambda game: (game.episode, game.simulator))
    return Evaluation([game.score for game in played], [game.length for game in played])
