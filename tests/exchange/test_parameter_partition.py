"""Parameters in parts of equal size, which readers join again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from veldt.exchange.parameter_partition import (
    COUNTS,
    PARAMETERS,
    ShardedParameters,
    ShardedWeights,
    part_layouts,
    split_evenly,
)
from veldt.exchange.weights import SharedWeights
from veldt.networks.flat import FlatParameters


@given(total=st.integers(1, 10_000), parts=st.integers(1, 50))
def test_parts_cover_the_vector_and_have_equal_sizes(total: int, parts: int) -> None:
    bounds = split_evenly(total, min(parts, total))
    assert bounds[0][0] == 0 and bounds[-1][1] == total
    assert all(end == first for (_, end), (first, _) in itertools.pairwise(bounds))
    sizes = [end - first for first, end in bounds]
    assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 1


def published(parts: list[SharedWeights], shard: int, version: int, values_N: np.ndarray) -> None:
    parts[shard].publish(version, {PARAMETERS: values_N, COUNTS: np.array([version, 1, 5], np.int64)})


def test_the_whole_has_the_newest_of_each_part_and_the_oldest_version() -> None:
    bounds = split_evenly(10, 3)
    parts = [SharedWeights(part_layouts(end - first), None) for first, end in bounds]
    values_P = np.zeros(10, np.float32)
    whole = ShardedParameters(parts, values_P)
    assert not whole.pull() and whole.version == -1
    for shard, (first, end) in enumerate(bounds):
        published(parts, shard, 3 + shard, np.full(end - first, shard, np.float32))
    assert whole.pull() and whole.version == 3 and whole.version_S.tolist() == [3, 4, 5]
    assert values_P.tolist() == [0] * 3 + [1] * 3 + [2] * 4
    assert whole.counts == (12, 3, 15)
    assert not whole.pull()
    published(parts, 0, 9, np.full(3, 7, np.float32))
    assert whole.pull() and whole.version == 4 and values_P.tolist() == [7] * 3 + [1] * 3 + [2] * 4


@pytest.mark.parametrize("shards", [1, 3])
def test_actors_get_the_networks_parameters_by_name(shards: int) -> None:
    """Also of convolutions, which lie channels-last, with one channel or a kernel of one."""

    def made(seed: int) -> FlatParameters:
        torch.manual_seed(seed)
        layers = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1), nn.Conv2d(1, 2, 5), nn.Linear(6, 2)
        return FlatParameters(nn.ModuleList(layers))

    learner, actor = made(1), made(2)
    bounds = split_evenly(len(learner.fp32_params), shards)
    parts = [SharedWeights(part_layouts(end - first), None) for first, end in bounds]
    weights, arrays = ShardedWeights(parts), actor.arrays()
    weights.check(arrays)
    assert weights.pull_if_newer(-1, arrays) == -1
    for shard, (first, end) in enumerate(bounds):
        published(parts, shard, 5, learner.fp32_params[first:end].numpy())
    assert weights.pull_if_newer(-1, arrays) == 5
    for name, tensor in learner.tensors().items():
        torch.testing.assert_close(actor.tensors()[name], tensor, rtol=0, atol=0)
    assert weights.pull_if_newer(5, arrays) == 5
