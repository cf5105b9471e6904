"""All transitions of a replay buffer, as one sample."""

from __future__ import annotations

import numpy as np

from veldt.replay.buffer import ReplayBuffer, ReplaySample


class AllTransitions:
    """An index that draws each sampleable transition once."""

    def __init__(self, replay: ReplayBuffer) -> None:
        self._ring = replay.ring

    def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        position_N = self._ring.between(self._ring.first, self._ring.end)
        return position_N, np.ones(len(position_N))


def all_transitions(replay: ReplayBuffer) -> ReplaySample:
    replay.index = AllTransitions(replay)  # type: ignore[assignment]
    return replay.sample(len(replay), 0)
