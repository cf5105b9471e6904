"""Rewards may have every type that is a number, in random start steps as in later ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from slots import make, settings_for

from environments import Scripted


class Rewarding(Scripted):
    """Rewards of another type, in every step."""

    def __init__(self, as_type: Callable[[float], Any]) -> None:
        super().__init__([(200, "terminated")])
        self._as_type = as_type

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, self._as_type(float(reward)), *rest


def as_it_is(reward: float) -> float:
    return reward


def started(as_type: Callable[[float], Any]) -> list[float]:
    """The scores of four envs after their random start steps."""
    envs = make(settings_for(lambda: Rewarding(as_type), random_start_steps=20), 2)
    try:
        return [prefix.score for prefix in envs.start().values()]
    finally:
        envs.close()


@pytest.mark.parametrize("as_type", [np.array, np.float64, Fraction])
def test_random_start_steps(as_type: Callable[[float], Any]) -> None:
    scores = started(as_type)
    assert scores == started(as_it_is) and any(scores)


def test_booleans_in_random_start_steps() -> None:
    assert started(np.bool_) == started(bool) and any(started(bool))
