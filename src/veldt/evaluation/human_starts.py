"""Human starts (Nair et al. 2015, section 5): episodes that begin at recorded points, and the recording of such points.

An agent that has memorised one long action sequence can replay it from every reset, even after many no-ops; from the
middle of another player's episode it cannot.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from veldt.agent import Agent
from veldt.config.versions import versions_for_env
from veldt.envs.seeding import EVALUATION, derive_seed, episode_seed
from veldt.evaluation.evaluator import Evaluation, evaluation_run_seed, play_until, playing, whole_episodes
from veldt.evaluation.start_replayer import StartReplayer
from veldt.evaluation.starts import Starts, draw_points, make_starts

# Seeds of the recorded episodes and of the points in them; they differ from those of evaluation episodes.
_EPISODES, _POINTS = 1, 2


def play_starts(agent: Agent, starts: Starts, *, seed: int, greedy: bool) -> Evaluation:
    """Plays one episode from each start. Returns, in the same order, the return and steps after the start.

    As in van Hasselt et al. (2016, "human starts") an episode has at most 30 minutes of the emulator's time
    (`max_episode_steps`), including the part before the start, and only rewards after the start count.
    """
    width = min(len(starts), agent.config.envs.num_envs)
    prefixes = StartReplayer(starts, width)
    with playing(agent, width, seed, greedy, prefixes=prefixes) as rows:
        played = play_until(rows, len(starts), lambda episode: prefixes.start_of(episode) is not None)
    reached = [prefixes.start_of(episode) for episode in played]
    lengths = [
        episode.length - len(start.actions) for episode, start in zip(played, reached, strict=True) if start
    ]
    return Evaluation([episode.episode_return for episode in played], lengths)


def record_from(agent: Agent, count: int, path: Path, *, seed: int, greedy: bool) -> Starts:
    """Records a start in each of `count` complete episodes of the agent, uniformly over the episode's steps.

    Raises:
        UsageError: the env is not deterministic.
        EnvError: the env failed.
    """
    config = agent.config
    episodes_seed = derive_seed(seed, EVALUATION, _EPISODES)
    episodes = whole_episodes(agent, count, seed=episodes_seed, greedy=greedy)
    points = draw_points(
        [episode.length for episode in episodes],
        np.random.default_rng(derive_seed(seed, EVALUATION, _POINTS)),
    )
    run_seed = evaluation_run_seed(episodes_seed)
    beginnings = [
        (episode_seed(run_seed, episode.env_index, episode.episode), episode.actions[:point])
        for episode, point in zip(episodes, points, strict=True)
    ]
    made = {"by": "agent", "run": str(agent.path), "step": agent.step, "seed": seed, "greedy": greedy}
    return make_starts(
        path,
        agent.source,
        config.atari,
        beginnings,
        made=made,
        versions=versions_for_env(config.env, config.env_kwargs),
        timeout=config.envs.env_timeout,
    )
