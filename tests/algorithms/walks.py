"""Envs that only count their steps, in a slot that is filled as envs fill it."""

from __future__ import annotations

import numpy as np

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.envs.trajectory import Trajectory

ACTIONS = 3
SPEC = EnvSpec({"": ArraySpec((1,), "float32")}, ActionSpec("discrete", sizes=(ACTIONS,), start=(0,)))


class Walk:
    """Episodes of `length` steps that terminate, with a reset step after each; an observation is its own number.

    `numbers` are the observations that steps began with, so far, and their phases, which are the policy's versions;
    `reward` is what the next steps earn.
    """

    def __init__(self, steps: int, width: int, length: int = 10, seed: int = 0) -> None:
        self.slot = Trajectory(SPEC, steps, width, None)
        self.length, self.reward = length, 0.0
        self.steps, self.phases = 0, 0
        self.numbers: dict[float, int] = {}
        self._rng = np.random.default_rng(seed)
        self._next = 0
        for b in range(width):
            self._observe(0, b, episode_step=0, ended=False)

    def phase(self) -> int:
        """Fills the slot, the first time or again. Returns the steps done since the start."""
        slot = self.slot
        if self.phases:
            slot.start_next_rollout()
        slot.version[:] = self.phases
        for t in range(slot.steps):
            for b in range(slot.width):
                self._step(t, b)
        self.phases += 1
        self.steps += int(slot.valid.sum())
        return self.steps

    def _step(self, t: int, b: int) -> None:
        slot = self.slot
        slot.flags[t, :, b], slot.reward[t, b] = False, 0.0
        slot.action[t, b] = self._rng.integers(ACTIONS)
        if slot.is_last[t, b]:
            self._observe(t + 1, b, episode_step=0, ended=False)
            return
        self.numbers[float(slot.observation[""][t, b, 0])] = self.phases
        episode_step = int(slot.episode_step[t, b]) + 1
        slot.valid[t, b], slot.reward[t, b] = True, self.reward
        slot.terminated[t, b] = episode_step >= self.length
        self._observe(t + 1, b, episode_step, ended=episode_step >= self.length)

    def _observe(self, t: int, b: int, episode_step: int, ended: bool) -> None:
        self.slot.observation[""][t, b] = self._next
        self.slot.episode_step[t, b], self.slot.is_last[t, b] = episode_step, ended
        self._next += 1
