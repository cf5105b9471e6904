"""The evaluator: plays whole games and reports their raw scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from veldt.agent import Agent
from veldt.simulators.choose import Plan, make_simulators
from veldt.simulators.seeding import EVALUATION, derive_seed, uniform
from veldt.simulators.settings import SimulationConfig
from veldt.simulators.simulator import StepperSettings
from veldt.systems.episodes import EpisodeBook
from veldt.systems.observations import slot_observations

_ROWS = 32  # steps between looks at which games are finished


@dataclass(frozen=True)
class Evaluation:
    """Raw scores and lengths (agent steps) of whole games, in the order of their start."""

    scores: list[float]
    lengths: list[int]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))


def evaluate(agent: Agent, plan: Plan, *, episodes: int, seed: int, greedy: bool) -> Evaluation:
    """Plays `episodes` whole games.

    Which games count is fixed before they are played (the first ones of each simulator): taking whichever finish first
    would favour short games.
    """
    config = agent.config
    simulators_count = min(episodes, config.simulation.num_simulators)
    simulation = SimulationConfig(num_simulators=simulators_count, env_timeout=config.simulation.env_timeout)
    run_seed = derive_seed(seed, EVALUATION)
    settings = StepperSettings(agent.source, run_seed, simulation, config.atari)
    wanted = [len(range(b, episodes, simulators_count)) for b in range(simulators_count)]
    played: dict[tuple[int, int], tuple[float, int]] = {}
    simulators = make_simulators(settings, agent.spec, _ROWS, plan, stacks=True)
    try:
        slot = simulators.trajectory
        book = EpisodeBook(slot.width, simulators.start())
        observations = slot_observations(slot, torch.device("cpu"))
        first_step = 0
        while len(played) < episodes:
            step_T = np.arange(first_step, first_step + _ROWS)
            noise_TBK = uniform(run_seed, EVALUATION, np.arange(slot.width), step_T, agent.noise)
            for t in range(_ROWS):
                for group, part in enumerate(simulators.groups):
                    slot.action[t, part] = agent.choose(observations.row(t, part), noise_TBK[t, part], greedy)
                    simulators.step(group, t)
                for group in range(len(simulators.groups)):
                    simulators.wait(group, t)
            for game in book.add(slot):
                if game.episode < wanted[game.simulator]:
                    played[game.episode, game.simulator] = game.score, game.length
            simulators.carry_over()
            first_step += _ROWS
    finally:
        simulators.close()
    results = [played[key] for key in sorted(played)]
    return Evaluation([score for score, _ in results], [length for _, length in results])
