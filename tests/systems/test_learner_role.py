"""What all roles with a learner have in common."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from veldt.systems.roles.learner import LearnerRole


@pytest.mark.parametrize("begun_with", [0, 1, 15, 16])
@pytest.mark.parametrize("at_once", [1, 12, 48])
def test_weights_are_published_when_they_are_due(at_once: int, begun_with: int) -> None:
    """However many updates are made between two looks, and whatever number a learner begins with."""
    published: list[int] = []
    role: Any = SimpleNamespace(
        _learner=SimpleNamespace(updates=begun_with),
        _plan=SimpleNamespace(publish_every=16, rank=0),
        _weights=SimpleNamespace(publish=lambda version, arrays: published.append(version)),
        _parameters=SimpleNamespace(arrays=dict),
    )
    role._publish = lambda: LearnerRole._publish(role)
    role._publish()
    for _ in range(96 // at_once):
        role._learner.updates += at_once
        LearnerRole.publish(role)
    steps = [after - before for before, after in itertools.pairwise(published)]
    assert len(steps) >= 2 and max(steps) <= 16 + at_once - 1
    assert max(steps[1:]) - min(steps[1:]) <= at_once
