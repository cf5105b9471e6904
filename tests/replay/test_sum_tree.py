"""The tree of sums against a plain list, under random operations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.replay.sum_tree import FAN_OUT, SumTree, tree_bytes

VALUES = st.sampled_from([0.0, 1e-6, 0.1, 0.3, 1.0, 7.0, 1e6])
CAPACITIES = st.integers(1, 12) | st.sampled_from([64, 65, 500, 513])


def fill(capacity: int, changes: list[list[tuple[int, float]]]) -> tuple[SumTree, list[float]]:
    """A tree and a list after the same changes, a batch each."""
    tree, plain = SumTree(capacity), [0.0] * capacity
    for change in changes:
        index = [i % capacity for i, _ in change]
        tree.set(np.array(index, np.int64), np.array([value for _, value in change], float))
        for i, (_, value) in zip(index, change, strict=True):
            plain[i] = value
    return tree, plain


CHANGES = st.lists(st.lists(st.tuples(st.integers(0, 600), VALUES), max_size=12), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(capacity=CAPACITIES, changes=CHANGES)
def test_leaves_and_total_equal_those_of_a_list(
    capacity: int, changes: list[list[tuple[int, float]]]
) -> None:
    """With leaves named twice in a batch: the last value stays."""
    tree, plain = fill(capacity, changes)
    assert tree.leaves.tolist() == plain
    assert tree.total == pytest.approx(math.fsum(plain), rel=1e-12)


@settings(max_examples=150, deadline=None)
@given(capacity=CAPACITIES, changes=CHANGES)
def test_the_same_leaves_are_the_same_tree_bit_for_bit(
    capacity: int, changes: list[list[tuple[int, float]]]
) -> None:
    tree, plain = fill(capacity, changes)
    again, rebuilt = SumTree(capacity), SumTree(capacity)
    again.set(np.arange(capacity)[::-1], np.array(plain)[::-1])
    rebuilt.leaves[:] = plain
    rebuilt.rebuild()
    assert again._nodes.tobytes() == rebuilt._nodes.tobytes() == tree._nodes.tobytes()


@settings(max_examples=150, deadline=None)
@given(capacity=CAPACITIES, changes=CHANGES, fractions=st.lists(st.floats(0, 1), max_size=20))
def test_targets_find_the_same_leaf_as_in_a_list(
    capacity: int, changes: list[list[tuple[int, float]]], fractions: list[float]
) -> None:
    tree, plain = fill(capacity, changes)
    if tree.total == 0:
        return
    found = tree.find(np.array(fractions) * tree.total)
    ends = np.cumsum(plain)
    for fraction, i in zip(fractions, found.tolist(), strict=True):
        target, tolerance = fraction * tree.total, 1e-9 * tree.total
        assert plain[i] > 0
        assert ends[i] - plain[i] - tolerance <= target <= ends[i] + tolerance


@pytest.mark.parametrize("capacity", [1, 7, 8, 9, 64, 100])
def test_targets_at_the_edges_of_whole_numbers(capacity: int) -> None:
    """Sums of small integers are exact: each leaf begins exactly where the one before it ends."""
    tree = SumTree(capacity)
    value = np.arange(capacity) % 3.0 + (capacity == 1)
    tree.set(np.arange(capacity), value)
    begin = np.cumsum(value) - value
    holding = np.flatnonzero(value)
    assert tree.find(begin[holding]).tolist() == holding.tolist()
    assert tree.find(begin[holding] + value[holding] - 0.25).tolist() == holding.tolist()


@settings(max_examples=100, deadline=None)
@given(capacity=st.integers(2, 200), seed=st.integers(0, 2**31))
def test_a_target_as_large_as_the_total_finds_no_empty_leaf(capacity: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = SumTree(capacity)
    value = rng.random(capacity) * (rng.random(capacity) < 0.3)
    value[rng.integers(0, capacity)] = 0.1
    tree.set(np.arange(capacity), value)
    last = np.flatnonzero(value)[-1]
    targets = np.array([tree.total, np.nextafter(tree.total, np.inf), tree.total * (1 + 1e-9)])
    assert tree.find(targets).tolist() == [last] * 3


def test_its_size_is_known_before_it_is_made() -> None:
    for capacity in (1, 8, 9, 1000):
        assert tree_bytes(capacity) == SumTree(capacity)._nodes.nbytes
    assert tree_bytes(FAN_OUT**6) == pytest.approx(8 * FAN_OUT**6 * FAN_OUT / (FAN_OUT - 1), rel=1e-3)
