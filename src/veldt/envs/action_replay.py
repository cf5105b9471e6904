"""Back into the middle of an episode, which is its seed and its actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from veldt.envs.env import StepEnv

# Of (env, row): the actions of the episode that is unfinished there, or None if they are not known.
ActionsUntil = Callable[[int, int], np.ndarray | None]


@dataclass(frozen=True)
class Unfinished:
    """How to put one env back into the middle of its episode.

    By the emulator's `state` where there is one, else by playing `actions` ([age, ...], as stored) after a reset. With
    neither it begins a new episode.
    """

    state: bytes | None = None
    actions: np.ndarray | None = None


@dataclass(frozen=True)
class ActionPrefix:
    """What was played of an episode before the first row: random actions [age, ...], as stored, and their score."""

    actions: np.ndarray
    score: float


def replay(
    env: StepEnv, seed: int, actions: Iterable[Any], observation: list[np.ndarray], index: int
) -> str | None:
    """Plays an unfinished episode again. None if it ends with `observation[field][index]`, else what is different."""
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
