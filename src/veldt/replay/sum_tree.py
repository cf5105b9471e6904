"""A tree of sums over many small numbers: one of them is changed, or found by its share of the total, in a few steps.

Each node has eight children, which fill one line of the processor's cache: a million leaves are seven levels, where a
binary tree has twenty. Every operation takes a batch, level by level, so that the memory's latencies overlap.
"""

from __future__ import annotations

import numba
import numpy as np

FAN_OUT = 8
_BITS = 3
_LINE = 64  # bytes


class SumTree:
    """`capacity` leaves, float64, 0 at first; a parent is always the sum of its children, added up in order.

    So nothing drifts, and the same leaves make the same tree bit for bit, whatever led to them.
    """

    def __init__(self, capacity: int) -> None:
        sizes = _level_sizes(capacity)
        self._level_L = np.cumsum([0, *sizes[:-1]])  # where each begins
        self._nodes = _aligned(sum(sizes))
        self.leaves = self._nodes[:capacity]

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(_total(self._nodes, self._level_L))

    def set(self, index_N: np.ndarray, value_N: np.ndarray) -> None:
        """Leaves `index_N` int64 become `value_N` float64, 0 or more; of a leaf that is named twice, the last."""
        _set(self._nodes, self._level_L, index_N, value_N)

    def find(self, target_N: np.ndarray) -> np.ndarray:
        """The leaf in which each target falls if leaves lie side by side, each as long as its value: int64 [N].

        A target float64 is in [0, total]; a leaf of 0 is never found, not even by a target that rounding has made as
        large as the total. The total must be more than 0.
        """
        return _find(self._nodes, self._level_L, target_N)

    def rebuild(self) -> None:
        """Makes the sums again, after `leaves` were written directly."""
        _rebuild(self._nodes, self._level_L)


def tree_bytes(capacity: int) -> int:
    """The memory of a tree."""
    return 8 * sum(_level_sizes(capacity))


def _level_sizes(capacity: int) -> list[int]:
    """Nodes of each level, leaves first, in whole families."""
    sizes = [-(-capacity // FAN_OUT) * FAN_OUT]
    while sizes[-1] > FAN_OUT:
        sizes.append(-(-sizes[-1] // FAN_OUT**2) * FAN_OUT)
    return sizes


def _aligned(count: int) -> np.ndarray:
    """Zeros, float64, that begin with a line of the cache."""
    room = np.zeros(count + _LINE // 8)
    first = -room.ctypes.data % _LINE // 8
    return room[first : first + count]


@numba.njit(nogil=True, cache=True, inline="always")
def _sum_of(nodes, first):  # type: ignore[no-untyped-def]
    total = nodes[first]
    for child in range(first + 1, first + FAN_OUT):
        total += nodes[child]
    return total


@numba.njit(nogil=True, cache=True)
def _total(nodes, level_L):  # type: ignore[no-untyped-def]
    return _sum_of(nodes, level_L[-1])


@numba.njit(nogil=True, cache=True)
def _set(nodes, level_L, index_N, value_N):  # type: ignore[no-untyped-def]
    for n in range(len(index_N)):
        nodes[index_N[n]] = value_N[n]
    for level in range(1, len(level_L)):
        before = -1
        for n in range(len(index_N)):
            parent = index_N[n] >> (_BITS * level)
            if parent != before:  # neighbours, which are often set together, share theirs
                nodes[level_L[level] + parent] = _sum_of(nodes, level_L[level - 1] + (parent << _BITS))
                before = parent


@numba.njit(nogil=True, cache=True)
def _rebuild(nodes, level_L):  # type: ignore[no-untyped-def]
    for level in range(1, len(level_L)):
        children = level_L[level] - level_L[level - 1]
        for parent in range(children >> _BITS):
            nodes[level_L[level] + parent] = _sum_of(nodes, level_L[level - 1] + (parent << _BITS))


@numba.njit(nogil=True, cache=True)
def _find(nodes, level_L, target_N):  # type: ignore[no-untyped-def]
    count = len(target_N)
    index_N = np.zeros(count, np.int64)
    rest_N = target_N.copy()
    for level in range(len(level_L) - 1, -1, -1):
        for n in range(count):
            first = level_L[level] + (index_N[n] << _BITS)
            rest, before, last = rest_N[n], 0.0, 0
            total = 0.0
            for child in range(FAN_OUT):
                value = nodes[first + child]
                if value > 0.0:
                    last, before = child, total
                    total += value
                    if rest < total:
                        break
            index_N[n] = (index_N[n] << _BITS) + last
            rest_N[n] = rest - before
    return index_N
