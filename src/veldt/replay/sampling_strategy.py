"""Sampling of transitions: uniform, or by priority (Schaul et al. 2016, section 3.3).

Both strategies draw positions of a ring, b R + r mod R for row r of env b, among its sampleable rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veldt.compiled import njit
from veldt.errors import VeldtError
from veldt.replay.sampling_registry import SampledRing, SamplingStrategy
from veldt.replay.sum_tree import SumTree

_EPSILON = 1e-6  # added to every priority, so that each can be drawn again (as in OpenAI Baselines)


class Uniform(SamplingStrategy):
    """Draws every sampleable row with equal probability, with replacement; each has the mass 1."""

    def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        ring = self.ring
        position_N = _draw_uniform(
            ring.first, ring.end, ring.valid.reshape(-1), ring.rows, count, np.uint64(seed)
        )
        return position_N, np.ones(count)


class Prioritised(SamplingStrategy):
    """Draws rows in proportion to (priority + 1e-6)^α, stored only in the leaves of `tree`; 0 is not sampleable.

    The draw is stratified: the total is divided into N equal intervals with one draw in each, so that a row is drawn in
    proportion to its leaf, its mass. Rows without a priority of their own get `max_priority`, the largest raw
    priority so far (initially 1).
    """

    uses_priorities = True

    def __init__(self, ring: SampledRing, alpha: float) -> None:
        super().__init__(ring, alpha)
        self.tree = SumTree(ring.valid.size)
        self.max_priority = 1.0

    @property
    def mass(self) -> float:
        return self.tree.total

    def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        position_N = self.tree.find(_strata(count, self.tree.total, np.uint64(seed)))
        return position_N, self.tree.leaves[position_N]

    def written(self, removed_M: np.ndarray, added_M: np.ndarray, priority_M: np.ndarray | None) -> None:
        self.tree.set(removed_M, np.zeros(len(removed_M)))
        if priority_M is None:
            priority_M = np.full(len(added_M), self.max_priority)
        else:
            self.max_priority = float(np.fmax.reduce(priority_M, initial=self.max_priority))
            priority_M = np.where(np.isnan(priority_M), self.max_priority, priority_M)
        self._set(added_M, priority_M)

    def update(self, position_N: np.ndarray, priority_N: np.ndarray) -> None:
        self.max_priority = float(priority_N.max(initial=self.max_priority))
        self._set(position_N, priority_N)

    def _set(self, position_N: np.ndarray, priority_N: np.ndarray) -> None:
        self.tree.set(position_N, (priority_N + _EPSILON) ** self.alpha)

    def state(self) -> dict[str, np.ndarray]:
        return {"leaves": self.tree.leaves.copy(), "largest": np.array(self.max_priority)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.tree.leaves[:] = arrays["leaves"]
        self.tree.rebuild()
        self.max_priority = float(arrays["largest"])


def check_priorities(priority_N: np.ndarray) -> None:
    """VeldtError if a raw priority is negative or not finite."""
    bad_N = priority_N[~((priority_N >= 0) & np.isfinite(priority_N))]
    if len(bad_N):
        raise VeldtError(
            f"{len(bad_N)} of {len(priority_N)} priorities are not allowed, the first is {bad_N[0]}: they must be "
            "finite and 0 or more; training has diverged, try a lower --learning-rate"
        )


@njit(inline="always")
def _mix(state):  # type: ignore[no-untyped-def]
    """Returns one number of SplitMix64 (Steele et al. 2014) from its state, uint64."""
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


_STEP = np.uint64(0x9E3779B97F4A7C15)  # SplitMix64's increment of its state for each number


@njit()
def _draw_uniform(first_B, end_B, valid, rows, count, seed):  # type: ignore[no-untyped-def]
    """Draws from a rectangle around the sampleable rows and rejects draws outside of them: exactly uniform."""
    width = len(first_B)
    longest = np.uint64((end_B - first_B).max())
    room = longest * np.uint64(width)
    mask = np.uint64(1)
    while mask < room:
        mask = mask << np.uint64(1)
    mask -= np.uint64(1)
    position_N = np.empty(count, np.int64)
    state = seed
    for n in range(count):
        while True:
            state += _STEP
            drawn = _mix(state) & mask
            if drawn >= room:
                continue
            b = np.int64(drawn // longest)
            row = first_B[b] + np.int64(drawn % longest)
            position = b * rows + row % rows
            if row < end_B[b] and valid[position]:
                position_N[n] = position
                break
    return position_N


@njit()
def _strata(count, total, seed):  # type: ignore[no-untyped-def]
    """Draws one number from each of `count` equal intervals of [0, total)."""
    target_N = np.empty(count)
    state = seed
    for n in range(count):
        state += _STEP
        fraction = np.float64(_mix(state) >> np.uint64(11)) * 2.0**-53
        target_N[n] = (n + fraction) / count * total
    return target_N
