"""Reads the observations of transitions from storage into the layout that the network takes."""

from __future__ import annotations

import numba
import numpy as np

from veldt.envs.spec import EnvSpec
from veldt.replay.ring import Ring

Observation = dict[str, np.ndarray]


class TransitionObservations:
    """Makes the observations and the next observations of transitions in one pass through the storage.

    Stacks of frames alternate between two preallocated blocks: allocating new memory would cost as much as writing it.
    """

    def __init__(self, ring: Ring, spec: EnvSpec) -> None:
        self._ring, self._fields = ring, spec.observation
        self._blocks: tuple[Observation, Observation] = {}, {}

    def take(self, position_N: np.ndarray, next_N: np.ndarray) -> tuple[Observation, Observation]:
        """Returns the observations of rows `position_N` and `next_N`, int64 [N]; see `ReplaySample` for the layout."""
        here, there = {}, {}
        self._blocks = self._blocks[::-1]
        for name, field in self._fields.items():
            store = self._ring.observation[name]
            if field.stack == 1:
                here[name], there[name] = store.rows(position_N), store.rows(next_N)
                continue
            block = self._block(name, (2, len(position_N), *field.shape, field.stack))
            store.stacks(_frames(self._ring.episode_step, np.stack([position_N, next_N]), field.stack), block)
            here[name], there[name] = block.transpose(0, 1, 4, 2, 3)
        return here, there

    def _block(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        blocks = self._blocks[0]
        if name not in blocks or blocks[name].shape != shape:
            blocks[name] = np.empty(shape, np.uint8)
        return blocks[name]


@numba.njit(nogil=True, cache=True)
def _frames(episode_step, position_SN, stack):  # type: ignore[no-untyped-def]
    """Returns the positions of the frames in each row's stack, oldest first; -1 before the episode's start."""
    sets, count = position_SN.shape
    rows = episode_step.shape[1]
    frame_SNK = np.empty((sets, count, stack), np.int64)
    for s in range(sets):
        for n in range(count):
            b, place = divmod(position_SN[s, n], rows)
            for k in range(stack):
                back = stack - 1 - k
                before = place - back if place >= back else place - back + rows
                frame_SNK[s, n, k] = b * rows + before if back <= episode_step[b, place] else -1
    return frame_SNK
