"""One env: a game that can be reset with a seed, stepped, and written into a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np

from veldt.envs.seeding import episode_seed
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec, ObservationCodec, action_spec
from veldt.errors import UsageError, contained


@dataclass(frozen=True)
class StepperSettings:
    """All that a stepper needs besides its slot; sent to worker processes.

    `first` is the number in the run of the first of its envs, which have numbers of their own beside others'.
    `seeds` are those of each env's first episodes, where they are given and do not follow from `run_seed`.
    """

    source: EnvSource
    run_seed: int
    simulation: EnvConfig
    atari: AtariConfig
    first: int = 0
    seeds: tuple[tuple[int, ...], ...] = ()

    def seed(self, b: int, episode: int) -> int:
        """The seed with which env `b` resets its `episode`-th episode."""
        given = self.seeds[b] if self.seeds else ()
        return given[episode] if episode < len(given) else episode_seed(self.run_seed, b, episode)


class StepEnv(Protocol):
    """What the stepper drives. `rows[field][index]` is where the observation is written."""

    spec: EnvSpec

    def reset(self, seed: int, rows: list[np.ndarray], index: int) -> None:
        """Begins the episode that `seed` names."""

    def step(self, action: Any, rows: list[np.ndarray], index: int) -> tuple[float, bool, bool, bool]:
        """One step with a stored action: (raw reward, terminated, truncated, life lost)."""

    def save(self) -> bytes | None:
        """The state in the middle of an episode, or None if it is rebuilt by replaying the actions."""

    def restore(self, state: bytes) -> None:
        """Continues from what `save` returned, in any process."""

    def render(self) -> np.ndarray:
        """The present picture, uint8 [H, W, 3]; needs `make_env(render=True)`."""

    def action_names(self) -> list[str]:
        """Of discrete actions, NOOP or UPRIGHTFIRE; empty where they have none."""

    def close(self) -> None: ...


class GymnasiumStepEnv:
    """Any Gymnasium environment. What it raises is an Exception by the time that others see it (see `contained`)."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self._codec = ObservationCodec(env.observation_space)
        self.spec = EnvSpec(self._codec.spec, action_spec(env.action_space))
        plain = self.spec.action.kind == "discrete" and self.spec.action.start == (0,)
        self._to_env = None if plain else self.spec.action.to_env

    def reset(self, seed: int, rows: list[np.ndarray], index: int) -> None:
        try:
            result = self._env.reset(seed=seed)
        except BaseException as error:
            contained(error)
        try:
            observation, _ = result
        except (TypeError, ValueError):
            raise ValueError(_count_message("reset", result, 2)) from None
        self._codec.write(observation, rows, index)

    def step(self, action: Any, rows: list[np.ndarray], index: int) -> tuple[float, bool, bool, bool]:
        if self._to_env is not None:
            action = self._to_env(action)
        try:
            result = self._env.step(action)
        except BaseException as error:
            contained(error)
        try:
            observation, reward, terminated, truncated, _ = result
        except (TypeError, ValueError):
            raise ValueError(_count_message("step", result, 5)) from None
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
            raise UsageError(f"{self._env} does not render pictures: it has no render_mode 'rgb_array'")
        return picture

    def action_names(self) -> list[str]:
        names = getattr(self._env.unwrapped, "get_action_meanings", None)
        return [] if names is None else list(names())

    def close(self) -> None:
        try:
            self._env.close()
        except BaseException as error:
            contained(error)


def _count_message(call: str, got: Any, expected: int) -> str:
    count = f"{len(got)} values" if isinstance(got, tuple) else type(got).__name__
    return f"{call}() returned {count}, not {expected} values, as Gymnasium's environments do"


def make_step_env(source: EnvSource, atari: AtariConfig, *, render: bool = False) -> StepEnv:
    """The native env for an Atari game, the Gymnasium one for everything else."""
    if source.is_atari:
        from veldt.envs.atari import NativeAtari

        return NativeAtari(source.name, atari)
    try:
        return GymnasiumStepEnv(source.make(render=render))
    except BaseException as error:
        contained(error)
