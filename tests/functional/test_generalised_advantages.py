"""Generalised advantages against a naive sum over each env's steps."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.functional.returns import generalised_advantages

STEP = st.sampled_from([(0.9, 1), (0.9, 0), (0.0, 0)])  # goes on; truncated; terminated: (discount, trace)


def naive(
    reward: np.ndarray, value: np.ndarray, discount: np.ndarray, trace: np.ndarray, lambda_: float
) -> np.ndarray:
    """Every advantage as its own sum, one env at a time, in double precision."""
    advantage = np.zeros(reward.shape)
    for b in range(reward.shape[1]):
        for t in range(reward.shape[0]):
            weight = 1.0
            for k in range(t, reward.shape[0]):
                delta = reward[k, b] + discount[k, b] * value[k + 1, b] - value[k, b]
                advantage[t, b] += weight * delta
                if trace[k, b] == 0:
                    break
                weight *= lambda_ * discount[k, b]
    return advantage


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(array).float() for array in arrays]


@given(
    steps=st.lists(st.lists(STEP, min_size=3, max_size=3), min_size=1, max_size=12),
    lambda_=st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_equal_to_the_naive_sum(steps: list[list[tuple[float, int]]], lambda_: float, seed: int) -> None:
    discount, trace = np.moveaxis(np.array(steps, float), -1, 0)
    rng = np.random.default_rng(seed)
    reward, value = rng.normal(size=discount.shape), rng.normal(size=(len(discount) + 1, discount.shape[1]))
    got = generalised_advantages(*tensors(reward, value, discount, trace), lambda_)
    np.testing.assert_allclose(got, naive(reward, value, discount, trace, lambda_), atol=1e-4)


@given(seed=st.integers(0, 2**32 - 1), length=st.integers(1, 10))
@settings(max_examples=50, deadline=None)
def test_lambda_one_is_the_n_step_return(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    reward, value = rng.normal(size=(length, 1)), rng.normal(size=(length + 1, 1))
    ones = np.ones((length, 1))
    advantage = generalised_advantages(*tensors(reward, value, 0.9 * ones, ones), 1.0)
    for t in range(length):
        after = length - t
        returned = sum(0.9**k * reward[t + k, 0] for k in range(after)) + 0.9**after * value[length, 0]
        assert abs(float(advantage[t, 0]) + value[t, 0] - returned) < 1e-4


def test_lambda_zero_is_the_one_step_error() -> None:
    reward, value = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0], [7.0]])
    half, one = torch.full((2, 1), 0.5), torch.ones(2, 1)
    advantage = generalised_advantages(reward, value, half, one, 0.0)
    assert advantage.tolist() == [[1 + 0.5 * 5 - 3], [2 + 0.5 * 7 - 5]]
