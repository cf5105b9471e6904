"""Plays scripted environments as Gymnasium says, one step after the other, and writes down what a slot should hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from slots import RUN_SEED, Policy

from environments import Scripted
from veldt.envs.seeding import episode_seed

Row = dict[str, Any]


@dataclass
class PlayedEpisode:
    """A finished episode of one env; `end` is the step (from the run's start) after its last one."""

    env: int
    episode: int
    end: int
    rewards: list[float] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)


@dataclass
class Played:
    """All of one env's rows and steps, the episodes it finished, and by row the actions of the present one."""

    rows: list[Row]
    steps: list[Row]
    episodes: list[PlayedEpisode]
    unfinished: list[list[int] | None]


def play(
    script: list[tuple[int, str]], policy: Policy, b: int, horizon: int, phases: int, wait: bool
) -> Played:
    """What env `b` goes through in `phases` slots of `horizon` steps.

    `rows` and `unfinished` hold `horizon + 1` entries a slot (None: the episode is over), `steps` hold `horizon`.
    """
    env = Scripted(script)
    episode = 0
    observation, _ = env.reset(seed=episode_seed(RUN_SEED, b, 0))
    current = PlayedEpisode(b, 0, 0)
    ended = False
    rows: list[Row] = []
    steps: list[Row] = []
    episodes: list[PlayedEpisode] = []
    unfinished: list[list[int] | None] = []

    def begin_next() -> None:
        nonlocal episode, observation, current, ended
        episode, ended = episode + 1, False
        observation, _ = env.reset(seed=episode_seed(RUN_SEED, b, episode))
        current = PlayedEpisode(b, episode, 0)

    def write_row() -> None:
        rows.append(
            {
                "episode_step": len(current.actions),
                "is_last": ended,
                "episode": episode,
                "observation": observation,
            }
        )
        unfinished.append(None if ended else list(current.actions))

    for t in range(horizon * phases):
        if t % horizon == 0:
            if wait and ended:
                begin_next()
            write_row()
        if ended:
            # The reset step: it resets, or in wait mode stands still until the slot is full.
            steps.append(
                {"valid": False, "reward": 0.0, "terminated": False, "truncated": False, "action": None}
            )
            if not wait:
                begin_next()
        else:
            action = int(policy(b, t, [observation]))
            observation, reward, terminated, truncated, _ = env.step(action)
            current.rewards.append(reward)
            current.actions.append(action)
            ended = terminated or truncated
            truncated = truncated and not terminated
            steps.append(
                {
                    "valid": True,
                    "reward": reward,
                    "terminated": terminated,
                    "truncated": truncated,
                    "action": action,
                }
            )
            if ended:
                current.end = t + 1
                episodes.append(current)
        write_row()
    return Played(rows, steps, episodes, unfinished)


def expected_rows(played: list[Played], name: str, phase: int, horizon: int) -> np.ndarray:
    """One field of the rows of one slot, [horizon + 1, B, ...]."""
    begin = phase * (horizon + 1)
    return np.array([[p.rows[begin + t][name] for p in played] for t in range(horizon + 1)])


def expected_steps(played: list[Played], name: str, phase: int, horizon: int) -> np.ndarray:
    """One field of the steps of one slot, [horizon, B]."""
    return np.array([[p.steps[phase * horizon + t][name] for p in played] for t in range(horizon)])
