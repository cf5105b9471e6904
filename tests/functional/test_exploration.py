"""Schedules of ε."""

from __future__ import annotations

import numpy as np
import pytest

from veldt.functional.q_learning import annealed, ladder


@pytest.mark.parametrize(
    ("done", "epsilon"), [(0, 1.0), (250, 0.775), (500, 0.55), (1000, 0.1), (10**9, 0.1)]
)
def test_epsilon_is_annealed_linearly_and_then_constant(done: int, epsilon: float) -> None:
    assert annealed(1.0, 0.1, 1000, done) == pytest.approx(epsilon)


def test_annealing_in_zero_steps_is_the_final_epsilon() -> None:
    assert annealed(1.0, 0.1, 0, 0) == 0.1


@pytest.mark.parametrize("width", [2, 8, 360])
def test_the_ladder_equals_the_papers_formula(width: int) -> None:
    rungs = ladder(0.4, 7.0, width)
    assert rungs.dtype == np.float64
    expected = [0.4 ** (1 + i / (width - 1) * 7) for i in range(width)]
    np.testing.assert_allclose(rungs, expected)
    assert rungs[0] == pytest.approx(0.4)
    assert rungs[-1] == pytest.approx(0.4**8)


def test_a_single_env_has_the_base() -> None:
    assert ladder(0.4, 7.0, 1).tolist() == [0.4]
