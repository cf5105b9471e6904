"""The buffer of unrolls that were learned from before."""

from __future__ import annotations

import numpy as np
import pytest

from veldt.runtime.shared import Layout
from veldt.systems.impala.learner import UnrollReplay


@pytest.mark.parametrize(("kept", "fresh"), [(5, 2), (10, 3), (27, 1), (27, 9)])
def test_all_unrolls_but_the_newest_are_drawn_with_equal_probability(kept: int, fresh: int) -> None:
    old = UnrollReplay({"number": Layout((1,), "int64")}, 10)
    for number in range(kept):
        old.keep({"number": np.array([number])})
    drawn = [int(slot["number"][0]) for slot in old.sample(4000, fresh, seed=3)]
    numbers, counts = np.unique(drawn, return_counts=True)
    assert numbers.tolist() == list(range(max(0, kept - 10), kept - fresh))
    assert counts.min() > 0.8 * 4000 / len(numbers)
    assert old.sample(0, fresh, seed=3) == []
