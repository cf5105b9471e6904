"""Environments for tests: small, deterministic by seed, each with one property that matters.

Functions without arguments can be named on a command line, `environments:dictionary`. Those that fail are in
`faulty_envs`.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Reset = tuple[Any, dict[str, Any]]
Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Scripted(gymnasium.Env[np.ndarray, Any]):
    """Episodes of known length and ending, with rewards that tell seed, step and action apart.

    `script` has (length, "terminated" | "truncated" | "both") entries; an episode's seed picks its entry.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(5)

    def __init__(self, script: Sequence[tuple[int, str]]) -> None:
        self._script = script

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        assert seed is not None, "every reset has to be seeded"
        self._seed, self._t = seed, 0
        self._length, self._ending = self._script[seed % len(self._script)]
        return self._observation(-1), {}

    def step(self, action: Any) -> Step:
        assert self._t < self._length, "stepped after the end of an episode"
        self._t += 1
        # Multiples of a quarter below 2**10: sums of them are exact in any order.
        reward = self._seed % 64 + self._t / 4 + 64 * int(action)
        over = self._t == self._length
        terminated = over and self._ending in ("terminated", "both")
        return (
            self._observation(action),
            reward,
            terminated,
            over and self._ending in ("truncated", "both"),
            {},
        )

    def _observation(self, action: Any) -> np.ndarray:
        return np.array([self._seed % 2**20, self._t, action], np.float32)


def scripted() -> gymnasium.Env[Any, Any]:
    return Scripted([(1, "terminated"), (4, "truncated"), (9, "terminated"), (2, "both"), (30, "truncated")])


class Hashed(gymnasium.Env[Any, Any]):
    """Any observation and action space; an observation is a hash of the seed and of every action so far.

    Whoever gets one action, one seed or one observation wrong sees other numbers from there on. Actions that the
    action space does not contain are refused.
    """

    def __init__(self, observation: spaces.Space[Any], action: spaces.Space[Any], longest: int = 12) -> None:
        self.observation_space, self.action_space, self._longest = observation, action, longest

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        assert seed is not None, "every reset has to be seeded"
        self._hash, self._left = zlib.crc32(str(seed).encode()), 1 + seed % self._longest
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is no action of {self.action_space}")
        self._hash = zlib.crc32(np.asarray(action).tobytes(), self._hash)
        self._left -= 1
        over = self._left == 0
        return (
            self._observe(),
            self._hash % 7 - 3.0,
            over and self._hash % 2 == 0,
            over and self._hash % 2 == 1,
            {},
        )

    def _observe(self) -> Any:
        self.observation_space.seed(self._hash)
        return self.observation_space.sample()


def dictionary() -> gymnasium.Env[Any, Any]:
    inner = spaces.Dict({"speed": spaces.Box(-1, 1, (2,), np.float64), "gear": spaces.Discrete(3)})
    camera = spaces.Box(0, 255, (6, 5, 3), np.uint8)
    return Hashed(spaces.Dict({"camera": camera, "body": inner}), spaces.Discrete(4, start=-1))


def multi_discrete() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Box(-1, 1, (4,), np.float32), spaces.MultiDiscrete([2, 5, 3], start=[0, -2, 7]))


def lopsided_box() -> gymnasium.Env[Any, Any]:
    bounds = np.array([-3, 0, -np.inf], np.float32), np.array([-1, 100, np.inf], np.float32)
    return Hashed(spaces.Box(-1, 1, (4,), np.float32), spaces.Box(*bounds))


def bounded_box() -> gymnasium.Env[Any, Any]:
    bounds = np.array([-3, 0], np.float32), np.array([-1, 100], np.float32)
    return Hashed(spaces.Box(-1, 1, (4,), np.float32), spaces.Box(*bounds))


def image_rows_columns_channels() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Box(0, 255, (24, 20, 3), np.uint8), spaces.Discrete(3))


def discrete_observation() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Discrete(11, start=-4), spaces.Discrete(2))


def box_of_integers() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Box(-5, 5, (2, 2), np.int32), spaces.Box(-2, 7, (2,), np.int64))


def table_of_choices() -> gymnasium.Env[Any, Any]:
    pair = spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])
    return Hashed(pair, spaces.MultiDiscrete([[2, 3], [4, 5]]))


def tuple_of_numbers() -> gymnasium.Env[Any, Any]:
    space = spaces.Tuple([spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(5)])
    return Hashed(space, spaces.Discrete(2))


def switches() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Box(-1, 1, (3,), np.float32), spaces.MultiBinary((2, 3)))


class RewardedAtTheEnd(gymnasium.Env[np.ndarray, Any]):
    """Episodes of 2 to 7 steps, whose only reward comes with the last: 1 for the side that is shown then."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    paid = 0.0  # by all of them in this process

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._rng = np.random.default_rng(seed)
        self._left = int(self._rng.integers(2, 8))
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self._left -= 1
        reward = float(self._left == 0 and int(action) == self._side)
        RewardedAtTheEnd.paid += reward
        return self._observation(), reward, self._left == 0, False, {}

    def _observation(self) -> np.ndarray:
        self._side = int(self._rng.integers(2))
        return np.array([2 * self._side - 1, self._left / 8], np.float32)


def rewarded_at_the_end() -> gymnasium.Env[Any, Any]:
    return RewardedAtTheEnd()


class TruncatedUntilFileExists(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Cuts episodes short at `steps` for as long as there is no file of this name in the working directory."""

    def __init__(self, env: gymnasium.Env[Any, Any], steps: int, told: str) -> None:
        super().__init__(env)
        self._steps, self._told = steps, Path(told)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._t = 0
        self._is_told = self._told.exists()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Step:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._t += 1
        cut = not self._is_told and self._t >= self._steps
        return observation, float(reward), terminated, truncated or cut, info


def cartpole_of_200_steps_at_first() -> gymnasium.Env[Any, Any]:
    """CartPole-v1 that nobody has solved before there is a file `longer`, however quick."""
    return TruncatedUntilFileExists(gymnasium.make("CartPole-v1"), 200, "longer")


class SlowSteps(gymnasium.Wrapper[Any, Any, Any, Any]):
    """No step takes less than so many seconds."""

    def __init__(self, env: gymnasium.Env[Any, Any], seconds: float) -> None:
        super().__init__(env)
        self._seconds = seconds

    def step(self, action: Any) -> Step:
        time.sleep(self._seconds)
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward), terminated, truncated, info


def slow_cartpole() -> gymnasium.Env[Any, Any]:
    """CartPole-v1 of which the first process to be there cannot take every step before the last one has begun."""
    return SlowSteps(gymnasium.make("CartPole-v1"), 0.002)
