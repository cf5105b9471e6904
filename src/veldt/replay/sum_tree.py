"""A sum tree over many non-negative numbers: changes a leaf, or finds the leaf at a partial sum, in a few steps.

Each node has eight children, which fill one cache line: a million leaves are seven levels, where a binary tree has
twenty. Every operation takes a batch, level by level, so that memory latencies overlap.
"""

from __future__ import annotations

import numpy as np

from veldt.compiled import njit

FAN_OUT = 8
_BITS = 3
_LINE = 64  # bytes


class SumTree:
    """`capacity` leaves, float64, initially 0; a parent is always the sum of its children, added up in order.

    So rounding errors do not accumulate, and the same leaves give the same tree bit for bit, whatever the history.
    """

    def __init__(self, capacity: int) -> None:
        sizes = _families(capacity)
        self._first_L = np.cumsum([0, *sizes[:-1]])  # index of the first family of each level
        self._nodes = _aligned(sum(sizes))
        self.leaves = self._nodes.reshape(-1)[:capacity]

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(_sum_of(self._nodes, self._first_L[-1]))

    def set(self, index_N: np.ndarray, value_N: np.ndarray) -> None:
        """Sets leaves `index_N` int64 to `value_N` float64, 0 or more; for a repeated index, the last value counts."""
        _set(self._nodes, self._first_L, index_N, value_N)

    def find(self, target_N: np.ndarray) -> np.ndarray:
        """Finds the leaf of each target, with the leaves side by side, each as long as its value: int64 [N].

        A target float64 is in [0, total]. A leaf of 0 is never found, not even if rounding has made the target as large
        as the total. The total must be more than 0.
        """
        return _find(self._nodes, self._first_L, target_N)

    def rebuild(self) -> None:
        """Computes the sums again, after `leaves` were written directly."""
        _rebuild(self._nodes, self._first_L)


def tree_bytes(capacity: int) -> int:
    """Returns the bytes of a tree."""
    return sum(_families(capacity)) * FAN_OUT * 8


def _families(capacity: int) -> list[int]:
    """Returns the number of sibling families of each level, leaves first."""
    counts = [-(-capacity // FAN_OUT)]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // FAN_OUT))
    return counts


def _aligned(families: int) -> np.ndarray:
    """Returns zeros, float64 [families, FAN_OUT], with each family in one cache line."""
    room = np.zeros(families * FAN_OUT + _LINE // 8)
    first = -room.ctypes.data % _LINE // 8
    return room[first : first + families * FAN_OUT].reshape(families, FAN_OUT)


# Below, `nodes` is float64 [F, FAN_OUT], the families of all levels; the children of node i of a level are the i-th
# family of the level below.


@njit()
def _sum_of(nodes, family):  # type: ignore[no-untyped-def]
    total = nodes[family, 0]
    for child in range(1, FAN_OUT):
        total += nodes[family, child]
    return total


@njit()
def _set(nodes, first_L, index_N, value_N):  # type: ignore[no-untyped-def]
    for n in range(len(index_N)):
        nodes[index_N[n] >> _BITS, index_N[n] % FAN_OUT] = value_N[n]
    for level in range(1, len(first_L)):
        before = -1
        for n in range(len(index_N)):
            node = index_N[n] >> (_BITS * level)
            if node != before:  # neighbours, which are often set together, share a parent
                total = _sum_of(nodes, first_L[level - 1] + node)
                nodes[first_L[level] + (node >> _BITS), node % FAN_OUT] = total
                before = node


@njit()
def _rebuild(nodes, first_L):  # type: ignore[no-untyped-def]
    for level in range(1, len(first_L)):
        for node in range(first_L[level] - first_L[level - 1]):
            total = _sum_of(nodes, first_L[level - 1] + node)
            nodes[first_L[level] + (node >> _BITS), node % FAN_OUT] = total


@njit()
def _find(nodes, first_L, target_N):  # type: ignore[no-untyped-def]
    index_N = np.zeros(len(target_N), np.int64)
    rest_N = target_N.copy()
    for level in range(len(first_L) - 1, -1, -1):
        for n in range(len(target_N)):
            family, rest = first_L[level] + index_N[n], rest_N[n]
            # Sums all siblings without an early exit: the branch is unpredictable, and a misprediction costs more.
            found, before, total = 0, 0.0, nodes[family, 0]
            for child in range(1, FAN_OUT):
                if total <= rest:
                    found, before = child, total
                total += nodes[family, child]
            if total <= rest:  # by rounding: take the last leaf that is not 0
                found, before, total = 0, 0.0, 0.0
                for child in range(FAN_OUT):
                    if nodes[family, child] > 0.0:
                        found, before = child, total
                    total += nodes[family, child]
            index_N[n] = (index_N[n] << _BITS) + found
            rest_N[n] = rest - before
    return index_N
