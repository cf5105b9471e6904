"""The evaluator: plays complete episodes and reports their raw returns."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch

from veldt.agent import Agent
from veldt.envs.arrangement import arrange, make_vector_envs
from veldt.envs.in_process import VectorEnvs
from veldt.envs.seeding import EVALUATION, derive_seed, uniform
from veldt.envs.settings import EnvConfig
from veldt.envs.stepper_settings import StepperSettings
from veldt.errors import UsageError
from veldt.evaluation.start_replayer import StartReplayer
from veldt.sampling.episodes import Episode, EpisodeTracker
from veldt.sampling.observations import slot_observations

_ROWS = 32  # steps between checks for finished episodes
_LONG = 30_000  # steps of an episode; one of Atari has at most 27,000
_LONG_S = 30.0  # without a finished episode
TO_SET_A_TIME_LIMIT = (
    "if the environment has no time limit, train with one: --env-kwargs '{\"max_episode_steps\": 1000}' for an id of "
    "Gymnasium, gymnasium.wrappers.TimeLimit in a function of your own"
)
_WIDTH = 4  # maximum number of envs in an evaluation by steps: each plays one episode too many


@dataclass(frozen=True)
class Evaluation:
    """Raw returns and lengths (agent steps) of episodes, by start; with recorded starts, of the part after these."""

    scores: list[float]
    lengths: list[int]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))


class EvaluatedRows(NamedTuple):
    """The episodes that ended in the last rows, and each env's present episode: its number, and its steps so far."""

    finished: list[Episode]
    episode_B: np.ndarray
    length_B: np.ndarray


def refuse_no_episode(result: Evaluation, agent: Agent) -> None:
    """Raises UsageError if no episode has ended in the steps of a protocol."""
    if not result.scores:
        raise UsageError(
            f"no episode ended within the protocol's {agent.config.run.evaluate_steps:,} steps: use --protocol episodes"
        )


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
    rows: Iterator[EvaluatedRows], num_episodes: int, counts: Callable[[Episode], bool]
) -> list[Episode]:
    """Plays until this many episodes count. Returns these, ordered by start. A note says so if an episode is long."""
    played: list[Episode] = []
    is_noted, began = False, time.monotonic()
    while len(played) < num_episodes:
        chunk = next(rows)
        played += filter(counts, chunk.finished)
        steps = int(chunk.length_B.max())
        if not is_noted and (steps > _LONG or (not played and time.monotonic() - began > _LONG_S)):
            is_noted = True
            print(
                f"note: an episode has {steps:,} steps and goes on ({len(played)} of {num_episodes} have ended): "
                f"{TO_SET_A_TIME_LIMIT}",
                file=sys.stderr,
            )
    return _in_order(played)


def play_steps(
    agent: Agent, steps: int, *, seed: int, greedy: bool, stopped: Callable[[], bool] = lambda: False
) -> Evaluation:
    """Plays `steps` steps and counts the episodes that end in them (Mnih et al. 2015: 125,000 steps, maximum 27,000).

    Several envs play, and what counts is what a single env would have played: their episodes one after another, the
    first of each env before the second of any, up to the last one that ends within `steps`. To give each env a share
    of the steps would favour short episodes, because of each env one unfinished episode is lost.

    Stops early, with the episodes so far, when `stopped` returns True. The run's `on_env_error` decides what happens
    when an env fails; an interrupted episode does not count.
    """
    width = min(_WIDTH, agent.config.envs.num_envs)
    sequence = _Sequence(width, steps)
    with playing(agent, width, seed, greedy, on_error=agent.config.envs.on_env_error) as rows:
        while not sequence.add(next(rows)) and not stopped():
            pass
    return _evaluation(sequence.episodes)


class _Sequence:
    """The episodes of `width` envs as if one env had played them in order: (episode 0, env 0), (0, 1), ..., (1, 0), ...

    `episodes` are those that end within `steps` steps.
    """

    def __init__(self, width: int, steps: int) -> None:
        self.episodes: list[Episode] = []
        self._finished: dict[tuple[int, int], Episode] = {}
        self._width, self._steps_left, self._next = width, steps, 0

    def add(self, chunk: EvaluatedRows) -> bool:
        """Adds what was played. Returns whether the steps are used up."""
        self._finished |= {(episode.episode, episode.env_index): episode for episode in chunk.finished}
        while True:
            number, b = divmod(self._next, self._width)
            episode = self._finished.pop((number, b), None)
            if episode is None and chunk.episode_B[b] <= number:  # it is being played, or begins next
                return bool(chunk.episode_B[b] == number and chunk.length_B[b] > self._steps_left)
            self._next += 1
            if episode is None:
                continue  # its env failed in it
            if episode.length > self._steps_left:
                return True
            self._steps_left -= episode.length
            self.episodes.append(episode)


def evaluation_run_seed(seed: int) -> int:
    """Returns the run seed for an evaluation with this seed; the episodes' seeds are derived from it."""
    return derive_seed(seed, EVALUATION)


@contextmanager
def playing(
    agent: Agent,
    width: int,
    seed: int,
    greedy: bool,
    on_error: Literal["stop", "restart"] = "stop",
    prefixes: StartReplayer | None = None,
) -> Iterator[Iterator[EvaluatedRows]]:
    """Makes envs for an evaluation. Yields an iterator, each of whose items is the result of the next 32 rows.

    `prefixes` leads the first episodes of the envs to their starts; all other episodes are played from the reset.
    """
    run_seed = evaluation_run_seed(seed)
    envs = _make_envs(agent, width, run_seed, on_error, prefixes)
    try:
        tracker = EpisodeTracker(width, envs.start())
        yield _played_rows(agent, envs, tracker, run_seed, greedy, prefixes)
    finally:
        envs.close()


def _make_envs(
    agent: Agent,
    width: int,
    run_seed: int,
    on_error: Literal["stop", "restart"],
    prefixes: StartReplayer | None,
) -> VectorEnvs:
    config, trained = agent.config, agent.config.envs
    env_config = EnvConfig(
        num_envs=width,
        env_backend=trained.env_backend,
        processes=min(trained.processes, width),
        alternate="off",
        on_env_error=on_error,
        env_timeout=trained.env_timeout,
    )
    atari = config.atari if prefixes is None else prefixes.emulator(config.atari)
    seeds = () if prefixes is None else prefixes.seeds
    settings = StepperSettings(agent.source, run_seed, env_config, atari, seeds=seeds)
    arrangement = arrange(agent.source, env_config, atari, 0)
    return make_vector_envs(settings, agent.spec, _ROWS, arrangement, stacks=True)


def _played_rows(
    agent: Agent,
    envs: VectorEnvs,
    tracker: EpisodeTracker,
    run_seed: int,
    greedy: bool,
    prefixes: StartReplayer | None,
) -> Iterator[EvaluatedRows]:
    """Plays for ever, and yields what was played after each slot."""
    slot = envs.trajectory
    rows, width = slot.steps, slot.width
    observations = slot_observations(slot, torch.device("cpu"))
    recurrent_state = agent.initial_recurrent_state(width)
    for first_step in itertools.count(0, rows):
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
        yield EvaluatedRows(tracker.add(slot), slot.episode[rows].copy(), slot.episode_step[rows].copy())
        envs.start_next_rollout()


def _in_order(played: list[Episode]) -> list[Episode]:
    return sorted(played, key=lambda episode: (episode.episode, episode.env_index))


def _evaluation(played: list[Episode]) -> Evaluation:
    return Evaluation([episode.episode_return for episode in played], [episode.length for episode in played])
