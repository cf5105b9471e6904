"""Batches as a learner takes them, from an edge whose memory is used again."""

from __future__ import annotations

import dataclasses
from collections import deque

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from veldt.algorithms.transitions import Transitions
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.exchange.gradients import NoAllReduce
from veldt.exchange.replay import ShardedBatch
from veldt.learning.batch_sources import Noise, to_transitions
from veldt.learning.replay_batches import ReplayBatches
from veldt.replay.buffer import ReplaySample
from veldt.replay.sampling_strategy import importance_weights
from veldt.tracking.stage_clock import StageClock

ROWS = 4
SPEC = EnvSpec({"": ArraySpec((4,), "float32")}, ActionSpec("discrete", sizes=(2,), start=(0,)))


class Edge:
    """One place, into which the next batch is written as soon as it is taken."""

    def __init__(self, batches: int) -> None:
        self._coming = deque(range(batches))
        self.updated: list[list[int]] = []
        names = ("observation/", "next_observation/")
        self._arrays = {name: np.zeros((ROWS, 4), np.float32) for name in names}
        self._arrays |= {name: np.zeros(ROWS, np.float32) for name in ("reward", "discount")}
        self._arrays |= {name: np.zeros(ROWS, np.int64) for name in ("action", "key", "version")}
        self._arrays["mass"] = np.ones(ROWS)

    rows, dropped = ROWS, 0

    def order(self, seed: int, deadline_s: float) -> bool:
        return True

    def take(self, deadline_s: float) -> ShardedBatch | None:
        if not self._coming:
            return None
        number = self._coming.popleft()
        for name in ("observation/", "reward", "key", "version"):
            self._arrays[name][:] = number
        self._arrays["mass"][:] = 0.5 + number
        return ShardedBatch(self._arrays, np.array([0, ROWS]), np.array([1]))

    def update(self, batch: ShardedBatch, priority_N: NDArray[np.float64], deadline_s: float) -> None:
        self.updated.append(batch.arrays["key"].tolist())


NO_NOISE = Noise(0, 0)
GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=GPU)])
def test_batches_are_taken_in_order_with_the_keys_of_their_own_rows(name: str, ahead: bool) -> None:
    edge, device = Edge(3), torch.device(name)

    def made(sample: ReplaySample, beta: float) -> Transitions:
        if name == "cpu":  # where nothing else copies
            seen = {field: array.copy() for field, array in sample.observation.items()}
            sample = dataclasses.replace(sample, reward_N=sample.reward_N.copy(), observation=seen)
        return to_transitions(sample, SPEC, beta, NO_NOISE, (1, 2), device)

    batches = ReplayBatches(edge, made, lambda: 0.4, SPEC, device, StageClock(), ahead=ahead)
    for number in range(3):
        taken = batches.take(0.0)
        assert taken is not None
        assert taken.transitions.reward.tolist() == [number] * ROWS
        assert (taken.transitions.observation == number).all()  # type: ignore[union-attr]
        assert taken.version_N.tolist() == [number] * ROWS and taken.least_mass == 0.5 + number
        batches.prefetch()
        edge.update(taken.batch, np.ones(ROWS), 0.0)
    assert batches.take(0.0) is None
    assert edge.updated == [[number] * ROWS for number in range(3)]


class Others(NoAllReduce):
    """Learners besides, the largest of whose values is known."""

    def __init__(self, largest: float) -> None:
        self._largest = largest

    def all_reduce_max(self, value: float) -> float:
        return max(value, self._largest)


@pytest.mark.parametrize("others", [0.02, 7.0])
def test_importance_weights_are_normalised_over_the_parts_of_all_learners(others: float) -> None:
    own_N, beta = np.array([0.1, 0.4, 2.0, 0.3]), 0.7

    def made(sample: ReplaySample, beta: float) -> Transitions:
        sample = dataclasses.replace(sample, mass_N=own_N)
        return to_transitions(sample, SPEC, beta, NO_NOISE, (1, 2), torch.device("cpu"))

    batches = ReplayBatches(Edge(1), made, lambda: beta, SPEC, torch.device("cpu"), StageClock(), ahead=False)
    taken = batches.take(0.0)
    assert taken is not None
    taken = dataclasses.replace(taken, least_mass=own_N.min())
    wanted_N = importance_weights(np.append(own_N, others), beta)[:-1]
    np.testing.assert_allclose(taken.with_global_weights(Others(-others)).weight, wanted_N, rtol=1e-6)
