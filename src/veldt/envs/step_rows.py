"""The arrays that one step reads and writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veldt.envs.trajectory import STEP_FLAGS, Trajectory

_CLEAR = np.array([[name == "valid"] for name in STEP_FLAGS])  # a step's flags before anything happens in it


class StepRows(NamedTuple):
    """Row t and row t + 1 of a slot, cut to some envs once and not at every step."""

    flags: np.ndarray
    ended: np.ndarray
    age: np.ndarray
    episode: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_ended: np.ndarray
    next_age: np.ndarray
    next_episode: np.ndarray
    next_observation: list[np.ndarray]
    next_floats: list[np.ndarray]  # those that may hold NaN, flat

    def clear(self) -> None:
        """An ordinary step of every env, before anything has happened in it."""
        self.flags[...] = _CLEAR
        np.add(self.age, 1, out=self.next_age)
        self.next_ended.fill(False)
        self.next_episode[...] = self.episode


def step_rows(slot: Trajectory, t: int, part: slice) -> StepRows:
    """The views of step `t`, envs `part`."""
    observation = slot.rows(t + 1, part)
    return StepRows(
        flags=slot.flags[t, :, part],
        ended=slot.ended[t, part],
        age=slot.age[t, part],
        episode=slot.episode[t, part],
        action=slot.action[t, part],
        reward=slot.reward[t, part],
        next_ended=slot.ended[t + 1, part],
        next_age=slot.age[t + 1, part],
        next_episode=slot.episode[t + 1, part],
        next_observation=observation,
        next_floats=[row.reshape(-1) for row in observation if row.dtype == np.float32],
    )
