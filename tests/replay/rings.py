"""Rings with the content that a test gives, without envs."""

from __future__ import annotations

import numpy as np
from simulated_envs import VECTOR

from veldt.replay.ring import Ring


def ring_of(valid: list[list[bool]], share: int, steps: int = 1) -> Ring:
    """A ring whose envs have lived through these rows (True: a step), of which the last `share` count."""
    ring = Ring(VECTOR, len(valid), share, steps)
    for b, rows in enumerate(valid):
        for row, is_step in enumerate(rows):
            ring.valid[b, row % ring.rows] = is_step
        ring.head[b] = len(rows)
    ring.sampleable = len(ring.between(ring.first, ring.end))
    return ring


def positions(ring: Ring) -> list[int]:
    """The positions that may be drawn, worked out one row at a time."""
    found = []
    for b in range(ring.width):
        end = max(0, int(ring.head[b]) - ring.steps + 1)
        for row in range(max(0, end - ring.capacity_per_env), end):
            if ring.valid[b, row % ring.rows]:
                found.append(b * ring.rows + row % ring.rows)
    return found


def chi_square(drawn: np.ndarray, probability: dict[int, float]) -> float:
    """How far counts are from what is expected, in standard deviations of the chi-square distribution."""
    assert set(drawn.tolist()) <= set(probability)
    counts = np.array([(drawn == position).sum() for position in probability])
    expected = np.array(list(probability.values())) * len(drawn)
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))
