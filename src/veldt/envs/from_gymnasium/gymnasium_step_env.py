"""Steps a Gymnasium environment: checks what it returns, and contains what it raises."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, ClassVar
from weakref import WeakSet

import gymnasium
import numpy as np
from gymnasium.wrappers import NormalizeObservation, NormalizeReward

from veldt.envs.from_gymnasium.forked_copies import FORKED, end_if_copy, watch_forks
from veldt.envs.from_gymnasium.observation_codec import ObservationCodec
from veldt.envs.spec import EnvSpec, action_spec
from veldt.errors import UsageError, contained


class GymnasiumStepEnv:
    """Any Gymnasium environment as a `StepEnv`. Whatever it raises reaches callers as an Exception (see `contained`).

    UsageError for one that another, which is not closed yet, steps already: they would move each other.
    """

    _open: ClassVar[WeakSet[GymnasiumStepEnv]] = WeakSet()  # of this process
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        watch_forks()
        self._env, self._innermost, self._process = env, env.unwrapped, os.getpid()
        try:
            self._codec = ObservationCodec(env.observation_space)
            self.spec = EnvSpec(
                self._codec.spec,
                action_spec(env.action_space),
                normalising_wrappers=_normalising_wrappers(env),
            )
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to be told
                env.close()
            raise
        plain = self.spec.action.kind == "discrete" and self.spec.action.start == (0,)
        self._to_env = None if plain else self.spec.action.to_env
        with self._opening:
            if any(other._innermost is self._innermost for other in self._open):
                raise UsageError(
                    f"the same {type(self._innermost).__name__} object was returned for two envs, which would move "
                    "each other (an evaluation has envs of its own): the function must make a new environment in each "
                    "call"
                )
            self._open.add(self)

    def reset(self, seed: int, rows: list[np.ndarray], index: int) -> None:
        try:
            result = self._env.reset(seed=seed)
        except BaseException as error:
            contained(error)
        finally:
            end_if_copy(self._process, self._innermost, "reset")
        # An array of two numbers would also unpack into two.
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError(
                _count_message("reset", result, "2 values: the observation and an info dictionary")
            )
        observation = result[0]
        self._codec.write(observation, rows, index)

    def step(self, action: Any, rows: list[np.ndarray], index: int) -> tuple[float, bool, bool, bool]:
        if self._to_env is not None:
            action = self._to_env(action)
        try:
            result = self._env.step(action)
        except BaseException as error:
            contained(error)
        finally:
            if FORKED:
                end_if_copy(self._process, self._innermost, "step")
        try:
            observation, reward, terminated, truncated, _ = result
        except (TypeError, ValueError):
            expected = "5 values: the observation, reward, terminated, truncated, and an info dictionary"
            raise ValueError(_count_message("step", result, expected)) from None
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated, truncated = _flag("terminated", terminated), _flag("truncated", truncated)
        self._codec.write(observation, rows, index)
        return reward, terminated, truncated, False  # type: ignore[return-value]

    def save(self) -> bytes | None:
        return None

    def restore(self, state: bytes) -> None:
        raise NotImplementedError("a Gymnasium environment is rebuilt by replaying its actions")

    def render(self) -> np.ndarray:
        try:
            picture = self._env.render()
        except BaseException as error:
            contained(error)
        if not isinstance(picture, np.ndarray):
            got = type(picture).__name__
        elif picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            got = f"{picture.dtype} {list(picture.shape)}"
        else:
            return picture
        raise UsageError(
            f"render() of {self._env} returned {got}: with the render_mode 'rgb_array' it must return a picture, uint8 "
            "[height, width, 3]"
        )

    def action_names(self) -> list[str]:
        names = getattr(self._innermost, "get_action_meanings", None)
        return [] if names is None else list(names())

    def close(self) -> None:
        with self._opening:
            self._open.discard(self)
        try:
            self._env.close()
        except BaseException as error:
            contained(error)


def _normalising_wrappers(env: gymnasium.Env[Any, Any]) -> tuple[str, ...]:
    """Returns the names of Gymnasium's wrappers around `env` that keep statistics of their own."""
    names = []
    while isinstance(env, gymnasium.Wrapper):
        names += [kind.__name__ for kind in (NormalizeObservation, NormalizeReward) if isinstance(env, kind)]
        env = env.env
    return tuple(names)


def _flag(name: str, value: Any) -> bool:
    """Returns whether an episode has ended; ValueError for what does not say it, such as several flags, a text or NaN.

    None, from a step that returns nothing for it, is no end.
    """
    # What nearly all envs return, once per step.
    if value is None or type(value) is bool or type(value) is np.bool_:
        return bool(value)
    array = np.asarray(value)
    # As a truth value, NaN would be an end.
    if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
        shown = f"an array {list(array.shape)}" if array.ndim and array.size > 1 else repr(value)
        raise ValueError(f"{name} is {shown}: step() must return True or False for it")
    return bool(array.item())


def _count_message(call: str, got: Any, expected: str) -> str:
    count = f"{len(got)} values" if isinstance(got, tuple) else type(got).__name__
    return f"{call}() returned {count}, and Gymnasium's environments return {expected}"
