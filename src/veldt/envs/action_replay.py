"""Puts an env back into the middle of an episode by replaying the episode's seed and actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from veldt.envs.step_env import StepEnv

# (env, row) -> the actions of the episode that is unfinished at that row, or None if they are not known.
ActionsUntil = Callable[[int, int], np.ndarray | None]


@dataclass(frozen=True)
class Unfinished:
    """How to put one env back into the middle of its episode.

    Restores the emulator's `state` if given, else plays `actions`, [N, ...] as stored, after a reset. With neither,
    the env begins a new episode.
    """

    state: bytes | None = None
    actions: np.ndarray | None = None


@dataclass(frozen=True)
class ActionPrefix:
    """The random actions [N, ...] (as stored) that an episode played before its first row, and their total reward."""

    actions: np.ndarray
    score: float


def replay(
    env: StepEnv, seed: int, actions: Iterable[Any], observation: list[np.ndarray], index: int
) -> str | None:
    """Replays an unfinished episode. Returns None if it ends with `observation[field][index]`, else the difference."""
    rows = [np.empty_like(row) for row in observation]
    env.reset(seed, rows, index)
    for step, action in enumerate(actions):
        _, terminated, truncated, _ = env.step(action, rows, index)
        if terminated or truncated:
            return f"it ended after {step + 1} steps"
    same = all(
        np.array_equal(row[index], had[index], equal_nan=row.dtype != np.uint8)
        for row, had in zip(rows, observation, strict=True)
    )
    return None if same else "its last observation is another"
