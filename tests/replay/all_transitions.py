"""Batches of a replay buffer: sampled ones, and one of all transitions."""

from __future__ import annotations

import numpy as np

from veldt.envs.spec import EnvSpec
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.buffer import ReplayBuffer


class AllTransitions:
    """An index that draws each sampleable transition once."""

    def __init__(self, replay: ReplayBuffer) -> None:
        self._ring = replay.ring

    def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        position_N = self._ring.between(self._ring.first, self._ring.end)
        return position_N, np.ones(len(position_N))


def sampled(replay: ReplayBuffer, spec: EnvSpec, count: int, seed: int) -> ReplayBatch:
    """A batch of `count` transitions in memory of its own."""
    batch = ReplayBatch.allocate(batch_layouts(spec, count))
    replay.sample(batch, seed)
    return batch


def all_transitions(replay: ReplayBuffer, spec: EnvSpec) -> ReplayBatch:
    replay.index = AllTransitions(replay)  # type: ignore[assignment]
    return sampled(replay, spec, len(replay), 0)
