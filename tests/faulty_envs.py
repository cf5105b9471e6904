"""Environments for tests that raise, hang, end their process, are not deterministic, or cannot be trained on.

Functions without arguments can be named on a command line, `faulty_envs:unmakeable`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from environments import Hashed, Reset, Scripted, Step


class NotDeterministic(Scripted):
    """Not deterministic: every instance gives other numbers for the same seed and actions."""

    def __init__(self, script: Sequence[tuple[int, str]]) -> None:
        super().__init__(script)
        self._own = np.float32(int.from_bytes(os.urandom(2), "big"))

    def _observation(self, action: Any) -> np.ndarray:
        return super()._observation(action) + self._own


def not_deterministic() -> gymnasium.Env[Any, Any]:
    return NotDeterministic([(50, "terminated")])


class FailsWhenReplayed(Scripted):
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


def fails_when_replayed() -> gymnasium.Env[Any, Any]:
    return FailsWhenReplayed([(50, "terminated")])


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
            case "long message":  # longer than what a pipe takes at once
                raise RuntimeError("x" * 1_000_000)
            case "SystemExit":
                raise SystemExit(0)
            case "nan observation":
                return (np.full(3, np.nan, np.float32), *result[1:])
            case "nan reward":
                return (result[0], float("nan"), *result[2:])
            case "infinite observation":
                return (np.array([0, -np.inf, 0], np.float32), *result[1:])
            case "infinite reward":
                return (result[0], float("inf"), *result[2:])
            case "shape":
                return (np.zeros(4, np.float32), *result[1:])
            case "no number":
                return (result[0], None, *result[2:])
            case "array reward":
                return (result[0], np.array([1.0]), *result[2:])
            case "text reward":
                return (result[0], "one", *result[2:])
            case "digit reward":
                return (result[0], "1", *result[2:])
            case "out of memory":
                raise MemoryError
            case "no info":
                return result[0] if len(result) == 2 else result[:4]
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


def hangs_after_a_while() -> gymnasium.Env[Any, Any]:
    return FailingLate("hang", 400)


def hangs_in_native_code_after_a_while() -> gymnasium.Env[Any, Any]:
    return FailingLate("hang in native code", 400)


def text_action() -> gymnasium.Env[Any, Any]:
    return Hashed(spaces.Box(-1, 1, (2,), np.float32), spaces.Text(4))


def no_object() -> type[gymnasium.Env[Any, Any]]:
    return Failing


def no_environment() -> str:
    return "an environment"


class EndsProcess(Scripted):
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


def ends_process(render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    return EndsProcess(render_mode)
