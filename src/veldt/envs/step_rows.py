"""Views of the arrays that one step reads and writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veldt.envs.trajectory import STEP_FLAGS, Trajectory

_CLEAR = np.array([[name == "valid"] for name in STEP_FLAGS])  # the flags of an ordinary step


class StepRows(NamedTuple):
    """Row t and row t + 1 of a slot for a slice of envs; sliced once and not at every step."""

    flags: np.ndarray
    is_last: np.ndarray
    episode_step: np.ndarray
    episode: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_is_last: np.ndarray
    next_episode_step: np.ndarray
    next_episode: np.ndarray
    next_observation: list[np.ndarray]
    next_floats: list[np.ndarray]  # float fields, flattened: these may hold NaN

    def clear(self) -> None:
        """Sets the rows to an ordinary step of every env, before the envs are stepped."""
        self.flags[...] = _CLEAR
        np.add(self.episode_step, 1, out=self.next_episode_step)
        self.next_is_last.fill(False)
        self.next_episode[...] = self.episode


def step_rows(slot: Trajectory, t: int, part: slice) -> StepRows:
    """Returns the views of step `t` for the envs `part`."""
    observation = slot.rows(t + 1, part)
    return StepRows(
        flags=slot.flags[t, :, part],
        is_last=slot.is_last[t, part],
        episode_step=slot.episode_step[t, part],
        episode=slot.episode[t, part],
        action=slot.action[t, part],
        reward=slot.reward[t, part],
        next_is_last=slot.is_last[t + 1, part],
        next_episode_step=slot.episode_step[t + 1, part],
        next_episode=slot.episode[t + 1, part],
        next_observation=observation,
        next_floats=[row.reshape(-1) for row in observation if row.dtype == np.float32],
    )
