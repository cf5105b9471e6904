"""Schedules of ε."""

from __future__ import annotations

import numpy as np
import pytest

from veldt.functional.q_learning import annealed, ladder


@pytest.mark.parametrize(
    ("done", "epsilon"), [(0, 1.0), (250, 0.775), (500, 0.55), (1000, 0.1), (10**9, 0.1)]
)
def test_annealed_along_a_line_and_then_constant(done: int, epsilon: float) -> None:
    assert annealed(1.0, 0.1, 1000, done) == pytest.approx(epsilon)


def test_annealed_in_no_steps_is_the_end() -> None:
    assert annealed(1.0, 0.1, 0, 0) == 0.1


@pytest.mark.parametrize("width", [2, 8, 360])
def test_ladder_is_the_papers(width: int) -> None:
    rungs = ladder(0.4, 7.0, width)
    assert rungs.dtype == np.float64
    expected = [0.4 ** (1 + i / (width - 1) * 7) for i in range(width)]
    np.testing.assert_allclose(rungs, expected)
    assert rungs[0] == pytest.approx(0.4)
    assert rungs[-1] == pytest.approx(0.4**8)


def test_a_single_env_has_the_base() -> None:
    assert ladder(0.4, 7.0, 1).tolist() == [0.4]
