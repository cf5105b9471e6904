"""The categorical projection against each atom's share, summed one by one in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.functional.q_learning import project

SUPPORT = torch.linspace(-10.0, 10.0, 51)
SHIFT = st.tuples(st.floats(-30.0, 30.0), st.sampled_from([0.0, 0.9, 0.99, 1.0]))  # reward, discount


def naive(probability: np.ndarray, support: np.ndarray, shifted: np.ndarray) -> np.ndarray:
    """Equation 7: an atom's probability times how near it lies to each atom of the support, in spacings."""
    projected = np.zeros(probability.shape)
    spacing = (support[-1] - support[0]) / (len(support) - 1)
    for n in range(len(probability)):
        for i in range(len(support)):
            for j in range(len(support)):
                distance = abs(min(max(shifted[n, j], support[0]), support[-1]) - support[i]) / spacing
                projected[n, i] += probability[n, j] * max(0.0, 1.0 - distance)
    return projected


def distributions(rows: int, atoms: int, seed: int = 0) -> torch.Tensor:
    return (3 * torch.randn(rows, atoms, generator=torch.Generator().manual_seed(seed))).softmax(-1)


@given(
    shifts=st.lists(SHIFT, min_size=1, max_size=4),
    low=st.floats(-20.0, 0.0),
    length=st.floats(0.5, 40.0),
    atoms=st.integers(2, 21),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_equal_to_the_naive_sum(
    shifts: list[tuple[float, float]], low: float, length: float, atoms: int, seed: int
) -> None:
    support = torch.linspace(low, low + length, atoms)
    reward_N1, discount_N1 = torch.tensor(shifts).split(1, -1)
    shifted = reward_N1 + discount_N1 * support
    probability = distributions(len(shifts), atoms, seed)
    got = project(probability, support, shifted)
    expected = naive(*(tensor.double().numpy() for tensor in (probability, support, shifted)))
    np.testing.assert_allclose(got, expected, atol=1e-4)
    np.testing.assert_allclose(got.sum(-1), 1.0, atol=1e-5)
    assert (got >= 0).all()


def test_the_projection_keeps_the_mean_of_values_within_the_range() -> None:
    probability = distributions(100, 51)
    shifted = torch.linspace(-2.0, 2.0, 100).unsqueeze(-1) + 0.8 * SUPPORT
    projected = project(probability, SUPPORT, shifted)
    torch.testing.assert_close(projected @ SUPPORT, (probability * shifted).sum(-1), rtol=1e-4, atol=1e-4)


def test_atoms_that_do_not_move_keep_their_probability() -> None:
    support, probability = torch.arange(-4.0, 5.0), distributions(3, 9)
    assert torch.equal(project(probability, support, support.expand(3, 9)), probability)


def test_atoms_moved_by_whole_spacings_give_their_probability_to_one_atom() -> None:
    support, probability = torch.arange(-4.0, 5.0), distributions(1, 9)
    moved = project(probability, support, (support + 2.0).unsqueeze(0))
    assert torch.equal(moved[0, 2:8], probability[0, :6])
    assert not moved[0, :2].any()
    assert float(moved[0, 8]) == pytest.approx(float(probability[0, 6:].sum()))


@pytest.mark.parametrize(("reward", "atom"), [(100.0, -1), (-100.0, 0)])
def test_values_outside_of_the_range_go_to_the_outermost_atom(reward: float, atom: int) -> None:
    projected = project(distributions(1, 51), SUPPORT, (reward + SUPPORT).unsqueeze(0))
    assert float(projected[0, atom]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("reward", "share"), [(0.0, {25: 1.0}), (0.4, {26: 1.0}), (0.3, {25: 0.25, 26: 0.75}), (12.0, {50: 1.0})]
)
def test_a_terminal_transition_is_its_reward(reward: float, share: dict[int, float]) -> None:
    projected = project(distributions(1, 51), SUPPORT, reward + 0.0 * SUPPORT.unsqueeze(0))
    expected = torch.zeros(1, 51)
    for atom, value in share.items():
        expected[0, atom] = value
    torch.testing.assert_close(projected, expected, rtol=0, atol=1e-5)


def test_a_nan_reward_affects_its_own_row_only() -> None:
    shifted = torch.tensor([[0.0], [float("nan")]]) + SUPPORT
    projected = project(distributions(2, 51), SUPPORT, shifted)
    assert projected[1].isnan().any()
    assert projected[0].isfinite().all()


def test_no_gradient_passes() -> None:
    probability = distributions(1, 51).requires_grad_()
    assert not project(probability, SUPPORT, SUPPORT.unsqueeze(0)).requires_grad
