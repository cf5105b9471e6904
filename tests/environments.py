"""Environments for tests: small, deterministic by seed, each with one property that matters.

Functions without arguments can be named on a command line, `environments:dictionary`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

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


class Forgetful(Scripted):
    """Not deterministic: every instance gives other numbers for the same seed and actions."""

    def __init__(self, script: Sequence[tuple[int, str]]) -> None:
        super().__init__(script)
        self._own = np.float32(int.from_bytes(os.urandom(2), "big"))

    def _observation(self, action: Any) -> np.ndarray:
        return super()._observation(action) + self._own


def forgetful() -> gymnasium.Env[Any, Any]:
    return Forgetful([(50, "terminated")])


class Offended(Scripted):
    """Not deterministic: an episode that is played again takes another course, where the first action is an error."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        mark = Path(f"seed-{seed}")
        self._known = mark.exists()
        mark.touch()
        return super().reset(seed=seed)

    def step(self, action: Any) -> Step:
        if self._known:
            raise ValueError("illegal move")
        return super().step(action)


def offended() -> gymnasium.Env[Any, Any]:
    return Offended([(50, "terminated")])


class Failing(Scripted):
    """Fails in the way `how` says, in step `at` (0: in the reset) of the episodes of these seeds; None: of all."""

    def __init__(
        self, how: str, seeds: Sequence[int] | None, at: int, lengths: Sequence[int] = (10,)
    ) -> None:
        super().__init__([(length, "terminated") for length in lengths])
        self._how, self._at = how, at
        self._seeds = None if seeds is None else frozenset(seeds)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        observation, info = super().reset(seed=seed)
        return self._spoil((observation, info)) if self._at == 0 else (observation, info)

    def step(self, action: Any) -> Step:
        whole = super().step(action)
        return self._spoil(whole) if self._t == self._at else whole

    def _spoil(self, result: Any) -> Any:
        if self._seeds is not None and self._seed not in self._seeds:
            return result
        match self._how:
            case "raise":
                raise RuntimeError("the wheel came off")
            case "SystemExit":
                raise SystemExit(0)
            case "nan observation":
                return (np.full(3, np.nan, np.float32), *result[1:])
            case "nan reward":
                return (result[0], float("nan"), *result[2:])
            case "shape":
                return (np.zeros(4, np.float32), *result[1:])
            case "no number":
                return (result[0], None, *result[2:])
            case "hang":
                time.sleep(120)
            case "hang in native code":
                # A call that does not give the interpreter back: nothing in this process can interrupt it.
                ctypes.PyDLL(None).sleep(120)
            case "exit":
                os._exit(7)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
        return result


def unmakeable() -> gymnasium.Env[Any, Any]:
    raise RuntimeError("no licence for this env")


class UnmakeableAfter(Scripted):
    """Can be made `count` times, by all processes together; `tally` is a file that counts."""

    def __init__(self, tally: str, count: int) -> None:
        super().__init__([(10, "terminated")])
        with Path(tally).open("a+") as file:
            file.write("x")
        if Path(tally).stat().st_size > count:
            raise RuntimeError("no licence for this env")


class Slow(Scripted):
    """The fifth step of an episode takes much longer than the others."""

    def __init__(self, seconds: float) -> None:
        super().__init__([(10, "terminated")])
        self._seconds = seconds

    def step(self, action: Any) -> Step:
        if self._t == 4:
            time.sleep(self._seconds)
        return super().step(action)


class FailingLate(Failing):
    """Fails in the way `how` says in every step of its process after the `count`-th. A hang makes a file `hangs`."""

    def __init__(self, how: str, count: int) -> None:
        super().__init__(how, (), 1)
        self._count, self._hangs = count, "hang" in how

    def step(self, action: Any) -> Step:
        global _steps
        _steps += 1
        if _steps > self._count:
            if self._hangs:
                Path("hangs").touch()
            self._seeds = frozenset([self._seed])
            self._spoil(None)
        return super().step(action)


_steps = 0


def fails_after_a_while() -> gymnasium.Env[Any, Any]:
    return FailingLate("raise", 400)


def hangs_in_native_code_after_a_while() -> gymnasium.Env[Any, Any]:
    return FailingLate("hang in native code", 400)


def text_action() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Box(-1, 1, (2,), np.float32), spaces.Text(4))


def no_environment() -> str:
    return "an environment"


def box_of_integers() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Box(-5, 5, (2, 2), np.int32), spaces.Box(-2, 7, (2,), np.int64))


def table_of_choices() -> gymnasium.Env[Any, Any]:
    pair = spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])
    return Hashed(pair, spaces.MultiDiscrete([[2, 3], [4, 5]]))


class PaidAtTheEnd(gymnasium.Env[np.ndarray, Any]):
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
        PaidAtTheEnd.paid += reward
        return self._observation(), reward, self._left == 0, False, {}

    def _observation(self) -> np.ndarray:
        self._side = int(self._rng.integers(2))
        return np.array([2 * self._side - 1, self._left / 8], np.float32)


def paid_at_the_end() -> gymnasium.Env[Any, Any]:
    return PaidAtTheEnd()


class UntilToldTo(gymnasium.Wrapper[Any, Any, Any, Any]):
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
    return UntilToldTo(gymnasium.make("CartPole-v1"), 200, "longer")


class Unhurried(gymnasium.Wrapper[Any, Any, Any, Any]):
    """No step takes less than so many seconds."""

    def __init__(self, env: gymnasium.Env[Any, Any], seconds: float) -> None:
        super().__init__(env)
        self._seconds = seconds

    def step(self, action: Any) -> Step:
        time.sleep(self._seconds)
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward), terminated, truncated, info


def unhurried_cartpole() -> gymnasium.Env[Any, Any]:
    """CartPole-v1 of which the first process to be there cannot take every step before the last one has begun."""
    return Unhurried(gymnasium.make("CartPole-v1"), 0.002)


class Ending(Scripted):
    """Ends its process, or tries to, in the way that the environment variable ENDING says: "how where after".

    `where` is "make", "reset", "step" or "close", and the call that ends it is the one after so many of them in this
    process. Before, it writes its seed and the step of its episode into a file `ending`.
    """

    calls: ClassVar[Counter[str]] = Counter()
    _seed = -1

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__([(50, "terminated")])
        self.render_mode = render_mode
        self._t = 0
        self._count("make")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        observation = super().reset(seed=seed)
        self._count("reset")
        return observation

    def step(self, action: Any) -> Step:
        self._count("step")
        return super().step(action)

    def render(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)

    def close(self) -> None:
        self._count("close")

    def _count(self, call: str) -> None:
        how, where, after = os.environ.get("ENDING", "no never 0").split()
        self.calls[call] += 1
        if call != where or self.calls[call] <= int(after):
            return
        Path("ending").write_text(f"{self._seed} {self._t}")
        match how:
            case "SystemExit(0)":
                raise SystemExit(0)
            case "SystemExit('text')":
                raise SystemExit("text")
            case "CancelledError":
                raise asyncio.CancelledError("not now")
            case "os._exit(0)":
                os._exit(0)
            case "os._exit(3)":
                os._exit(3)
            case "exit(0)":
                ctypes.CDLL(None).exit(0)
            case "segfault":
                ctypes.string_at(0)
            case "SIGKILL":
                os.kill(os.getpid(), signal.SIGKILL)


def ending(render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    return Ending(render_mode)
