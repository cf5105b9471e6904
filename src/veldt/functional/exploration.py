"""Schedules of ε for ε-greedy exploration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def annealed(start: float, end: float, steps: int, done: int) -> float:
    """ε after `done` steps: linear from `start` to `end` over `steps`, then `end`."""
    if done >= steps:
        return end
    return start + (end - start) * done / steps


def ladder(base: float, power: float, width: int) -> NDArray[np.float64]:
    """One ε for each of `width` envs, float64 [B] (Horgan et al. 2018, section 4: base 0.4, power 7).

        ε_i = base^(1 + power i / (width - 1))

    The first env has `base` (so does a single env), the last one base^(1 + power).
    """
    return base ** (1.0 + power * np.linspace(0.0, 1.0, width))
