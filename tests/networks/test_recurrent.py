"""The LSTM: learning computes the same outputs as acting, and no state crosses the beginning of an episode."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from specs import ATARI, BOX, DISCRETE, MULTI, VECTOR, single
from torch import Tensor, nn

from veldt.envs.spec import ActionSpec, ArraySpec
from veldt.networks.actor_critic import policy_distribution
from veldt.networks.build import build_torso
from veldt.networks.precision import apply_precision
from veldt.networks.recurrent import (
    LSTM,
    RecurrentActorCritic,
    RecurrentForward,
    RecurrentState,
    recurrent_size_of,
)

CPU = torch.device("cpu")
UNITS = 6


def network(
    field: ArraySpec = VECTOR, action: ActionSpec = DISCRETE, units: int = UNITS
) -> RecurrentActorCritic:
    torch.manual_seed(0)
    own = RecurrentActorCritic(
        lambda: build_torso("auto", single(field), (8,)), action, functools.partial(LSTM, units=units)
    )
    # Heads as they are at first say next to nothing of what is remembered.
    nn.init.normal_(own.heads.policy_head.weight)
    return own


def test_the_formulas_are_those_of_an_lstm() -> None:
    torch.manual_seed(0)
    own, cell = LSTM(3, UNITS), nn.LSTMCell(3, UNITS)
    order = torch.tensor([0, 1, 3, 2])  # torch has input, forget, cell, output
    with torch.no_grad():
        for mine, its in ((own.input.weight, cell.weight_ih), (own.hidden.weight, cell.weight_hh)):
            its.copy_(mine.view(4, UNITS, -1)[order].flatten(0, 1))
        cell.bias_ih.copy_(own.input.bias.view(4, UNITS)[order].flatten())
        cell.bias_hh.zero_()
    assert cell.bias_ih[UNITS : 2 * UNITS].tolist() == [1.0] * UNITS
    features_TBF, state_BM = torch.randn(5, 2, 3), torch.randn(2, 2 * UNITS)
    output_TBU, after_BM = own(features_TBF, state_BM, torch.ones(5, 2, 1))
    h, c = state_BM.chunk(2, -1)
    for features_BF, output_BU in zip(features_TBF, output_TBU, strict=True):
        h, c = cell(features_BF, (h, c))
        torch.testing.assert_close(output_BU, h)
    torch.testing.assert_close(after_BM, torch.cat([h, c], -1))


@given(
    begins=st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=8
        )
    ),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_the_unrolled_pass_equals_acting_step_by_step(begins: list[list[bool]], seed: int) -> None:
    own, begins_TB = network(), torch.tensor(begins)
    (steps, width), generator = begins_TB.shape, torch.Generator().manual_seed(seed)
    observation_TBO = torch.randn(steps, width, 5, generator=generator)
    state_BM = torch.randn(width, own.recurrent_size, generator=generator)
    policy_NP, value_N, after_BM = own(observation_TBO.flatten(0, 1), state_BM, begins_TB)
    recurrent_state = RecurrentState(own, own.recurrent_size, width, CPU)
    recurrent_state.state_BM.copy_(state_BM)
    with torch.no_grad():
        for t in range(steps):
            for b in range(width):  # alone, so that which state belongs to which env is seen
                age_1 = np.array([0 if begins[t][b] else 7])
                policy_1P, value_1 = recurrent_state.at(slice(b, b + 1), age_1)(observation_TBO[t, b : b + 1])
                torch.testing.assert_close(policy_1P[0], policy_NP[t * width + b])
                torch.testing.assert_close(value_1[0], value_N[t * width + b])
    torch.testing.assert_close(recurrent_state.state_BM, after_BM)


def test_a_call_continues_from_the_state_of_the_call_before() -> None:
    own = network()
    observation_SBO, state_BM = torch.randn(6, 3, 5), torch.randn(3, own.recurrent_size)
    begins_SB = torch.rand(6, 3) < 0.3
    begins_SB[5, 1] = True
    whole = own(observation_SBO.flatten(0, 1), state_BM, begins_SB)
    along = RecurrentForward(own, state_BM, begins_SB)
    parts = [along(observation_SBO[a:b].flatten(0, 1)) for a, b in ((0, 4), (4, 5), (5, 6))]
    for i in range(2):
        torch.testing.assert_close(torch.cat([part[i] for part in parts]), whole[i])
    torch.testing.assert_close(along.state_BM, whole[2])


def test_an_episode_begins_with_a_cleared_state_and_gets_no_gradient_from_the_next() -> None:
    own = network()
    observation_TBO = torch.randn(4, 2, 5, requires_grad=True)
    state_BM = torch.randn(2, own.recurrent_size, requires_grad=True)
    begins_TB = torch.tensor([[False, True], [False, False], [True, False], [False, False]])
    policy_NP, _, _ = own(observation_TBO.flatten(0, 1), state_BM, begins_TB)
    fresh_NP, _, _ = own(observation_TBO[2:, :1].flatten(0, 1), torch.zeros(1, own.recurrent_size))
    torch.testing.assert_close(policy_NP.view(4, 2, -1)[2:, 0], fresh_NP)
    gradient, of_state = torch.autograd.grad(policy_NP.view(4, 2, -1)[3].sum(), (observation_TBO, state_BM))
    assert [bool(gradient[t, 0].any()) for t in range(4)] == [False, False, True, True]
    assert [bool(gradient[t, 1].any()) for t in range(4)] == [True] * 4
    assert not of_state.any()


def test_rows_without_a_state_are_of_as_many_envs() -> None:
    """As when an update's speed is measured before any step."""
    own = network()
    observation_NO = torch.randn(5, 5)
    for mine, its in zip(
        own(observation_NO), own(observation_NO, torch.zeros(5, own.recurrent_size)), strict=True
    ):
        assert torch.equal(mine, its)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("action", [DISCRETE, MULTI, BOX], ids=lambda action: action.kind)
@pytest.mark.parametrize("field", [VECTOR, ATARI], ids=["vector", "atari"])
def test_recurrent_state_and_heads_are_float32(field: ArraySpec, action: ActionSpec, precision: str) -> None:
    own = network(field, action)
    apply_precision(own, precision, CPU)
    given = torch.zeros(6, *field.network_shape, dtype=getattr(torch, field.dtype))
    policy, value, state = own(given, torch.zeros(2, own.recurrent_size))
    assert (policy.shape, value.shape) == ((6, policy_distribution(action).num_parameters), (6,))
    assert state.shape == (2, 2 * UNITS)
    assert {policy.dtype, value.dtype, state.dtype} == {torch.float32}
    kept = [*own.core.parameters(), *own.heads.parameters()]
    assert {parameter.dtype for parameter in kept} == {torch.float32}
    low = {parameter.dtype for parameter in own.torso.parameters()}
    assert low == {torch.bfloat16 if precision == "bf16" else torch.float32}


def test_dict_observations_are_unrolled_too() -> None:
    """The number of rows is that of any field."""

    class Sum(nn.Module):
        features = 5

        def forward(self, observation: dict[str, Tensor]) -> Tensor:
            return observation["a"] + observation["b"]

    own = RecurrentActorCritic(Sum, DISCRETE, functools.partial(LSTM, units=UNITS))
    a, b, begins_TB = torch.randn(6, 5), torch.randn(6, 5), torch.zeros(3, 2, dtype=torch.bool)
    state_BM = torch.zeros(2, own.recurrent_size)
    policy, value = RecurrentForward(own, state_BM, begins_TB)({"a": a, "b": b})
    assert torch.equal(policy, own({"a": a, "b": b}, state_BM)[0])
    assert len(value) == 6


def test_without_an_lstm_there_is_no_recurrent_state() -> None:
    plain = nn.Linear(5, 2)
    assert recurrent_size_of(plain) == 0
    recurrent_state = RecurrentState(plain, 0, 3, CPU)
    assert recurrent_state.at(slice(0, 2), np.zeros(2)) is plain
    assert recurrent_state.state_BM.numel() == 0


def test_weights_are_those_of_the_layers_by_name() -> None:
    """A checkpoint's names."""
    names = {name for name, _ in network().named_parameters()}
    assert {"core.input.weight", "core.hidden.weight", "heads.policy_head.weight"} <= names
