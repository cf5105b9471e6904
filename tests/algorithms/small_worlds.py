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


class ClockWithBox(Clock):
    """The same for actions that are real numbers."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)  # type: ignore[assignment]


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


class Chain(gymnasium.Env[np.ndarray, Any]):
    """States in a row, left (0) and right (1): a reward of 1 for leaving on the right, which is the end, and a little
    one for pushing at the wall on the left. Episodes start anywhere; no observation tells that they are truncated.
    """

    action_space = spaces.Discrete(2)
    LENGTH, WALL, LIMIT = 5, 0.05, 12
    observation_space = spaces.Box(0.0, 1.0, (LENGTH,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        assert seed is not None
        self._state, self._t = seed % self.LENGTH, 0
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        self._state, reward, over = self.move(self._state, int(action))
        self._t += 1
        return self._observe(), reward, over, not over and self._t == self.LIMIT, {}

    @classmethod
    def move(cls, state: int, action: int) -> tuple[int, float, bool]:
        """The next state, the reward, and whether that was the end."""
        if action == 1:
            over = state == cls.LENGTH - 1
            return (state if over else state + 1), float(over), over
        return max(0, state - 1), cls.WALL if state == 0 else 0.0, False

    def _observe(self) -> np.ndarray:
        return np.eye(self.LENGTH, dtype=np.float32)[self._state]


class Recall(gymnasium.Env[np.ndarray, Any]):
    """One of two cues is seen in the first observation only, and has to be named in the last step: 1 if it is, else 0.

    Without a recurrent state nothing is better than to guess, which earns a half.
    """

    LENGTH = 5
    observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        assert seed is not None
        self._cue, self._t = seed % 2, 0
        return np.eye(3, dtype=np.float32)[self._cue], {}

    def step(self, action: Any) -> Step:
        self._t += 1
        over = self._t == self.LENGTH
        asked = np.array([0.0, 0.0, self._t == self.LENGTH - 1], np.float32)
        return asked, float(over and action == self._cue), over, False, {}


class Aim(gymnasium.Env[np.ndarray, Any]):
    """Episodes of one step: each of three contexts has its best action, and the reward is how far one is from it,
    squared and negative.
    """

    BEST = (1.0, 2.0, 3.5)
    observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = spaces.Box(0.0, 4.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        assert seed is not None
        self._context = seed % 3
        return np.eye(3, dtype=np.float32)[self._context], {}

    def step(self, action: Any) -> Step:
        error = float(action[0]) - self.BEST[self._context]
        return np.eye(3, dtype=np.float32)[self._context], -(error**2), True, False, {}
