"""V-trace against its definition, a sum over all later steps, and against what it is in special cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.functional.returns import generalised_advantages
from veldt.functional.vtrace import VTraceReturns, vtrace

# Goes on; truncated or no step at all; terminated: (discount, trace).
STEP = st.sampled_from([(0.9, 1), (0.9, 1), (0.9, 0), (0.0, 0)])
STEPS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(STEP, min_size=width, max_size=width), min_size=1, max_size=12)
)
BAR = st.sampled_from([0.5, 1.0, 2.0, 100.0])
SEED = st.integers(0, 2**32 - 1)
Arrays = dict[str, np.ndarray]


def experience(steps: list[list[tuple[float, int]]], seed: int, lag: float = 1.0) -> Arrays:
    """Random numbers for every argument of `vtrace`; `lag` is how far logarithms of ratios are from 0."""
    discount, trace = np.moveaxis(np.array(steps, float), -1, 0)
    rng, (length, width) = np.random.default_rng(seed), discount.shape
    return {
        "log_ratio_TB": rng.normal(0, lag, (length, width)) if lag else np.zeros((length, width)),
        "reward_TB": rng.normal(size=(length, width)),
        "value_SB": rng.normal(size=(length + 1, width)),
        "discount_TB": discount,
        "trace_TB": trace,
    }


def under_test(arrays: Arrays, **settings: float) -> VTraceReturns:
    return vtrace(**{name: torch.from_numpy(array) for name, array in arrays.items()}, **settings)  # type: ignore[arg-type]


def naive(arrays: Arrays, rho_bar: float, c_bar: float, lambda_: float) -> tuple[np.ndarray, np.ndarray]:
    """Equation 1 with the products of its c_i, and section 4.2, one step at a time."""
    log_ratio, reward, value, discount, trace = arrays.values()
    ratio, (length, width) = np.exp(log_ratio), log_ratio.shape
    target, advantage = np.zeros((length, width)), np.zeros((length, width))
    for b in range(width):
        for s in range(length):
            end = next((t for t in range(s, length) if not trace[t, b]), length - 1)
            target[s, b] = value[s, b]
            for t in range(s, end + 1):
                c = [lambda_ * min(c_bar, ratio[i, b]) for i in range(s, t)]
                rho = min(rho_bar, ratio[t, b])
                delta = rho * (reward[t, b] + discount[t, b] * value[t + 1, b] - value[t, b])
                target[s, b] += np.prod(discount[s:t, b]) * np.prod(c) * delta
        for s in range(length):
            goes_on = s + 1 < length and trace[s, b]
            following = target[s + 1, b] if goes_on else value[s + 1, b]
            error = reward[s, b] + discount[s, b] * following - value[s, b]
            advantage[s, b] = min(rho_bar, ratio[s, b]) * error
    return target, advantage


@given(steps=STEPS, rho_bar=BAR, c_bar=BAR, lambda_=st.sampled_from([0.0, 0.7, 1.0]), seed=SEED)
@settings(max_examples=200, deadline=None)
def test_equal_to_the_definition(
    steps: list[list[tuple[float, int]]], rho_bar: float, c_bar: float, lambda_: float, seed: int
) -> None:
    arrays = experience(steps, seed)
    got = under_test(arrays, rho_bar=rho_bar, c_bar=c_bar, lambda_=lambda_)
    target, advantage = naive(arrays, rho_bar, c_bar, lambda_)
    np.testing.assert_allclose(got.target_TB, target, atol=1e-9)
    np.testing.assert_allclose(got.advantage_TB, advantage, atol=1e-9)
    np.testing.assert_allclose(got.rho_TB, np.minimum(rho_bar, np.exp(arrays["log_ratio_TB"])))


@given(steps=STEPS, bar=st.sampled_from([1.0, 3.0]), lambda_=st.sampled_from([0.0, 0.9, 1.0]), seed=SEED)
@settings(max_examples=100, deadline=None)
def test_on_policy_the_target_is_the_lambda_return(
    steps: list[list[tuple[float, int]]], bar: float, lambda_: float, seed: int
) -> None:
    """Remark 1: with λ = 1, the n-step return; and so is A2C's advantage the same."""
    arrays = experience(steps, seed, lag=0.0)
    got = under_test(arrays, rho_bar=bar, c_bar=bar, lambda_=lambda_)
    tensors = [torch.from_numpy(array) for array in list(arrays.values())[1:]]
    advantage = generalised_advantages(*tensors, lambda_)
    torch.testing.assert_close(got.target_TB, advantage + tensors[1][:-1])
    if lambda_ == 1.0:
        torch.testing.assert_close(got.advantage_TB, advantage)


def test_a_truncated_step_by_hand() -> None:
    """The return ends with V of the episode's last observation, and the next episode has no influence."""
    arrays = {
        "log_ratio_TB": np.log([[0.5], [4.0], [1.0], [1.0]]),
        "reward_TB": np.array([[1.0], [2.0], [1e6], [3.0]]),  # the third is a reset step
        "value_SB": np.array([[10.0], [20.0], [30.0], [1e6], [1e6]]),
        "discount_TB": np.full((4, 1), 0.9),
        "trace_TB": np.array([[1.0], [0.0], [0.0], [1.0]]),
    }
    got = under_test(arrays, rho_bar=2.0, c_bar=1.0)
    second = 20 + 2 * (2 + 0.9 * 30 - 20)
    first = 10 + 0.5 * (1 + 0.9 * 20 - 10) + 0.9 * 0.5 * (second - 20)
    assert got.target_TB[:2, 0].tolist() == pytest.approx([first, second])
    assert got.advantage_TB[:2, 0].tolist() == pytest.approx([0.5 * (1 + 0.9 * second - 10), second - 20])


@pytest.mark.parametrize("rho_bar", [0.5, 1.0, 1.2, 10.0])
def test_rho_bar_decides_whose_value_is_learned(rho_bar: float) -> None:
    """Equation 3: targets lie around the value of the policy proportional to min(ρ̄ μ, π), and c̄ has no part in it."""
    acted, policy, reward = np.array([0.6, 0.4]), np.array([0.2, 0.8]), np.array([1.0, 5.0])
    between = np.minimum(rho_bar * acted, policy)
    value = (between * reward).sum() / between.sum()
    action_B = np.repeat([0, 1], (10 * acted).astype(int))  # as often as the policy that acts chooses them
    arrays = {
        "log_ratio_TB": np.log(policy / acted)[action_B][None],
        "reward_TB": reward[action_B][None],
        "value_SB": np.full((2, 10), value),
        "discount_TB": np.zeros((1, 10)),
        "trace_TB": np.zeros((1, 10)),
    }
    for c_bar in (0.5, 1.0):
        assert float(under_test(arrays, rho_bar=rho_bar, c_bar=c_bar).target_TB.mean()) == pytest.approx(
            value
        )


def test_an_impossible_and_a_certain_action() -> None:
    """Ratios of 0 and infinity give finite results."""
    arrays = experience([[(0.9, 1)]] * 3, 0)
    arrays["log_ratio_TB"] = np.array([[1e4], [-1e4], [0.0]])
    got = under_test(arrays, rho_bar=1.0, c_bar=1.0)
    assert all(bool(part.isfinite().all()) for part in got)
    assert float(got.advantage_TB[1, 0]) == 0.0
    assert float(got.target_TB[1, 0]) == pytest.approx(arrays["value_SB"][1, 0])
