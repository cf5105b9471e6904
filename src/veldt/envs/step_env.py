"""The interface of one env, which the stepper drives: reset with a seed, step, write the observation into a row."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from veldt.envs.from_gymnasium.gymnasium_step_env import GymnasiumStepEnv
from veldt.envs.settings import AtariConfig
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.errors import contained
from veldt.standard_streams import fill_closed_streams


class StepEnv(Protocol):
    """The interface that the stepper drives. The observation is written to `rows[field][index]`."""

    spec: EnvSpec

    def reset(self, seed: int, rows: list[np.ndarray], index: int) -> None:
        """Begins the episode of `seed`."""

    def step(self, action: Any, rows: list[np.ndarray], index: int) -> tuple[float, bool, bool, bool]:
        """Steps once with a stored action. Returns (raw reward, terminated, truncated, life lost)."""

    def save(self) -> bytes | None:
        """Returns the state in the middle of an episode, or None if it is rebuilt by replaying the actions."""

    def restore(self, state: bytes) -> None:
        """Continues from a state that `save` returned, in any process."""

    def render(self) -> np.ndarray:
        """Returns the current picture, uint8 [H, W, 3]; needs `make_env(render=True)`."""

    def action_names(self) -> list[str]:
        """Returns the names of discrete actions, such as NOOP or UPRIGHTFIRE; empty if the env has no names."""

    def close(self) -> None: ...


def make_step_env(source: EnvSource, atari: AtariConfig, *, render: bool = False) -> StepEnv:
    """Makes the native env for an Atari game, else the Gymnasium env."""
    if source.is_atari:
        from veldt.envs.atari import NativeAtari

        return NativeAtari(source.name, atari)
    try:
        return GymnasiumStepEnv(source.make(render=render))
    except BaseException as error:
        contained(error)
    finally:
        # The environment may have closed them: the run's next file would get the number of one, and be closed with it.
        fill_closed_streams()
