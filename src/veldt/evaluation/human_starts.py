"""Human starts (Nair et al. 2015, section 5): games that begin at recorded places, and the record of such places.

An agent that has learned one long routine by heart plays it from the beginning of every game, however many no-ops come
first; from the middle of another player's game it cannot.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from veldt.agent import Agent
from veldt.envs.seeding import EVALUATION, derive_seed, episode_seed
from veldt.evaluation.evaluator import Evaluation, evaluation_run_seed, play_until, playing, whole_episodes
from veldt.evaluation.start_replayer import StartReplayer
from veldt.evaluation.starts import Starts, draw_points, make_starts
from veldt.runs.machine import versions

# Seeds of recorded games and of the points drawn in them: other games than those that an evaluation plays.
_GAMES, _POINTS = 1, 2


def play_starts(agent: Agent, starts: Starts, *, seed: int, greedy: bool) -> Evaluation:
    """Plays one game from each start; in their order, the points and steps after it.

    As van Hasselt et al. (2016, "human starts") play Nair et al.'s: a game may take 30 minutes of the emulator's time
    (`max_episode_steps`), what was played before the start included, and only points after the start count.
    """
    width = min(len(starts), agent.config.envs.num_envs)
    prefixes = StartReplayer(starts, width)
    with playing(agent, width, seed, greedy, prefixes=prefixes) as rows:
        played = play_until(rows, len(starts), lambda game: prefixes.start_of(game) is not None)
    before = [prefixes.start_of(game) for game in played]
    lengths = [game.length - len(start.actions) for game, start in zip(played, before, strict=True) if start]
    return Evaluation([game.episode_return for game in played], lengths)


def record_from(agent: Agent, count: int, path: Path, *, seed: int, greedy: bool) -> Starts:
    """A start in each of `count` whole games of the agent, at a point that is uniform over the game's steps.

    Raises:
        UsageError: the environment is not deterministic.
        EnvError: the environment failed.
    """
    config = agent.config
    games_seed = derive_seed(seed, EVALUATION, _GAMES)
    games = whole_episodes(agent, count, seed=games_seed, greedy=greedy)
    points = draw_points(
        [game.length for game in games], np.random.default_rng(derive_seed(seed, EVALUATION, _POINTS))
    )
    run_seed = evaluation_run_seed(games_seed)
    beginnings = [
        (episode_seed(run_seed, game.env_index, game.episode), game.actions[:point])
        for game, point in zip(games, points, strict=True)
    ]
    made = {"by": "agent", "run": str(agent.path), "step": agent.step, "seed": seed, "greedy": greedy}
    return make_starts(
        path,
        agent.source,
        config.atari,
        beginnings,
        made=made,
        versions=versions(),
        timeout=config.envs.env_timeout,
    )
