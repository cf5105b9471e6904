"""Every episode of a training run can be played again from the seed and the actions in its list of episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import veldt
from environments import dictionary, lopsided_box, multi_discrete
from run_state import SMALL
from veldt.envs.atari import NativeAtari
from veldt.envs.seeding import episode_seed
from veldt.envs.settings import AtariConfig
from veldt.envs.spec import action_spec
from veldt.runs.episodes import read_episodes


def score(env: gymnasium.Env[Any, Any], seed: int, actions: np.ndarray) -> float:
    """The return of one episode played by Gymnasium's interface; the last action must end it."""
    spec = action_spec(env.action_space)
    env.reset(seed=seed)
    total, over = 0.0, False
    for action in actions:
        assert not over
        _, reward, terminated, truncated, _ = env.step(spec.to_env(action))
        # Rewards are stored as float32.
        total, over = total + float(np.float32(reward)), terminated or truncated
    assert over
    return total


def short_pendulum() -> gymnasium.Env[Any, Any]:
    """Its rewards are no round numbers: sums of them depend on their order."""
    return gymnasium.make("Pendulum-v1", max_episode_steps=20)


@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
@pytest.mark.parametrize(
    ("env", "make"),
    [
        ("CartPole-v1", lambda: gymnasium.make("CartPole-v1")),
        (short_pendulum, short_pendulum),
        ("environments:dictionary", dictionary),
        ("environments:multi_discrete", multi_discrete),
        ("environments:lopsided_box", lopsided_box),
    ],
)
def test_small_environments(env: Any, make: Any, resets: str, tmp_path: Path) -> None:
    settings = SMALL | {
        "env_backend": "in-process",
        "steps": 500,
        "random_start_steps": 30,
        "resets": resets,
        "seed": 4,
    }
    run = veldt.train("ppo", env=env, run_dir=tmp_path / "run", quiet=True, **settings)
    episodes = read_episodes(run.path)
    assert len(episodes) > 10 and sum(episode.prefix > 0 for episode in episodes) > 1
    for episode in episodes:
        assert episode.seed == episode_seed(4, episode.env, episode.episode)
        actions = episode.actions()
        assert len(actions) == episode.length
        assert score(make(), episode.seed, actions) == pytest.approx(episode.score, rel=1e-13)


def test_breakout(tmp_path: Path) -> None:
    config = AtariConfig(sticky_actions=0.25, max_episode_steps=120)
    run = veldt.train(
        "a2c",
        env="ALE/Breakout-v5",
        run_dir=tmp_path / "run",
        quiet=True,
        steps=700,
        num_envs=4,
        env_backend="workers",
        processes=2,
        random_start_steps=50,
        precision="fp32",
        threads=1,
        sticky_actions=config.sticky_actions,
        max_episode_steps=config.max_episode_steps,
    )
    episodes = read_episodes(run.path)
    assert len(episodes) >= 4 and any(episode.score > 0 for episode in episodes)
    env = NativeAtari("ALE/Breakout-v5", config)
    rows = [np.zeros((1, 104, 80), np.uint8)]
    for episode in episodes:
        env.reset(episode.seed, rows, 0)
        signals = [env.step(action, rows, 0) for action in episode.actions().tolist()]
        assert sum(reward for reward, *_ in signals) == episode.score
        assert [ended or cut for _, ended, cut, _ in signals].index(True) == episode.length - 1
