"""Environments whose values and best returns are known in closed form."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Reset = tuple[np.ndarray, dict[str, Any]]
Step = tuple[np.ndarray, float, bool, bool, dict[str, Any]]


class Clock(gymnasium.Env[np.ndarray, Any]):
    """A reward of 1 at every step, whatever is done, and an end after `length` steps.

    One observation for each time of the episode, one-hot; the last one looks like the first, so that the value of the
    state in which an episode is truncated is one that is learned.
    """

    action_space = spaces.Discrete(2)

    def __init__(self, length: int, ending: str) -> None:
        self._length, self._ending = length, ending
        self.observation_space = spaces.Box(0.0, 1.0, (length,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._t = 0
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        self._t += 1
        over = self._t == self._length
        return (
            self._observe(),
            1.0,
            over and self._ending == "terminated",
            over and self._ending == "truncated",
            {},
        )

    def _observe(self) -> np.ndarray:
        return np.eye(self._length, dtype=np.float32)[self._t % self._length]


class Bandit(gymnasium.Env[np.ndarray, Any]):
    """Episodes of one step; the reward says how good the action was, 1 at best."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, kind: str) -> None:
        self.action_space: spaces.Space[Any] = {
            "discrete": spaces.Discrete(4, start=3),
            "multi": spaces.MultiDiscrete([3, 4]),
            "box": spaces.Box(np.array([0.0, -2.0], np.float32), np.array([1.0, 2.0], np.float32)),
        }[kind]
        self._kind = kind

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Step:
        return np.ones(1, np.float32), self._reward(action), True, False, {}

    def _reward(self, action: Any) -> float:
        if self._kind == "discrete":
            return [0.0, 0.5, 1.0, 0.2][int(action) - 3]
        if self._kind == "multi":
            return 0.5 * (action[0] == 2) + 0.5 * (action[1] == 1)
        return 1.0 - float(np.abs((action - [0.75, -1.0]) / [0.5, 2.0]).mean())
