"""Batches as a learner takes them, from an edge whose preallocated batches are used again."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from veldt.algorithms.transitions import Transitions
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.exchange.gradients import NoAllReduce
from veldt.learning.replay_batches import BatchConverter, NoiseWidths, ReplayBatches
from veldt.replay.batch import ReplayBatch, batch_layouts, importance_weights
from veldt.tracking.stage_clock import StageClock

ROWS = 4
SPEC = EnvSpec({"": ArraySpec((4,), "float32")}, ActionSpec("discrete", sizes=(2,), start=(0,)))


class Edge:
    """Two preallocated batches, which are written to again as soon as they are given back."""

    def __init__(self, batches: int, mass_N: NDArray[np.float64] | None = None) -> None:
        self._coming, self._mass_N = deque(range(batches)), mass_N
        self.updated: list[list[int]] = []
        self._free = deque(ReplayBatch.allocate(batch_layouts(SPEC, ROWS)) for _ in range(2))
        self._taken: deque[ReplayBatch] = deque()

    rows, dropped = ROWS, 0

    def request(self, seed: int, deadline_s: float) -> bool:
        return True

    def take(self, deadline_s: float) -> ReplayBatch | None:
        if not self._coming:
            return None
        batch, number = self._free.popleft(), self._coming.popleft()
        for array in batch.arrays.values():
            array[:] = number
        batch.mass_N[:] = 0.5 + number if self._mass_N is None else self._mass_N
        self._taken.append(batch)
        return batch

    def give_back(self, priority_N: NDArray[np.float64] | None) -> None:
        batch = self._taken.popleft()
        self.updated.append(batch.key_N.tolist())
        for array in batch.arrays.values():
            array[:] = 99
        self._free.append(batch)


NO_NOISE, CPU = NoiseWidths(0, 0), torch.device("cpu")
GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=GPU)])
def test_batches_are_taken_in_order_with_the_keys_of_their_own_rows(name: str, ahead: bool) -> None:
    edge, device = Edge(3), torch.device(name)

    def converted(batch: ReplayBatch) -> tuple[Transitions, float]:
        return BatchConverter(SPEC, NO_NOISE, device).to_transitions(batch, 0.4, (1, 2)), 0.4

    batches = ReplayBatches(edge, converted, None, device, StageClock(), ahead=ahead)
    for number in range(3):
        taken = batches.take(0.0)
        assert taken is not None
        batch, transitions = taken
        batches.prefetch()
        assert transitions.reward.tolist() == [number] * ROWS
        assert (transitions.observation == number).all()  # type: ignore[union-attr]
        assert batch.version_N.tolist() == [number] * ROWS and (batch.mass_N == 0.5 + number).all()
        edge.give_back(np.ones(ROWS))
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

    def converted(batch: ReplayBatch) -> tuple[Transitions, float]:
        return BatchConverter(SPEC, NO_NOISE, CPU).to_transitions(batch, beta, (1, 2)), beta

    edge = Edge(1, own_N)
    batches = ReplayBatches(edge, converted, Others(-others), torch.device("cpu"), StageClock(), ahead=False)
    taken = batches.take(0.0)
    assert taken is not None
    wanted_N = importance_weights(np.append(own_N, others), beta)[:-1]
    np.testing.assert_allclose(taken[1].weight, wanted_N, rtol=1e-6)


def test_stacks_have_the_networks_layout() -> None:
    spec = EnvSpec({"": ArraySpec((3, 5), "uint8", 4)}, SPEC.action)
    batch = ReplayBatch.allocate(batch_layouts(spec, ROWS))
    for array in batch.arrays.values():
        array[...] = np.arange(1, 1 + array.size).reshape(array.shape)
    made = BatchConverter(spec, NO_NOISE, CPU).to_transitions(batch, 0.4, (1, 2))
    pairs = (made.observation, batch.observation[""]), (made.next_observation, batch.next_observation[""])
    for observation, stored in pairs:
        assert isinstance(observation, torch.Tensor) and observation.shape == (ROWS, 4, 3, 5)
        assert observation.is_contiguous(memory_format=torch.channels_last)
        np.testing.assert_array_equal(observation.numpy(), stored.transpose(0, 3, 1, 2))
