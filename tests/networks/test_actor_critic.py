"""The heads: shapes, fp32 whatever the torso computes in, and a first policy without a preference."""

from __future__ import annotations

import pytest
import torch
from specs import ATARI, BOX, DISCRETE, MULTI, VECTOR, single

from veldt.envs.spec import ActionSpec, ArraySpec
from veldt.networks.actor_critic import ActorCritic, policy_distribution
from veldt.networks.build import build_torso
from veldt.networks.precision import apply_precision

CPU = torch.device("cpu")


def network(field: ArraySpec, action: ActionSpec, shared: bool) -> ActorCritic:
    torch.manual_seed(0)
    return ActorCritic(lambda: build_torso("auto", single(field), (32, 32)), action, shared)


def observations(field: ArraySpec) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if field.dtype == "uint8":
        return torch.randint(0, 256, (7, *field.network_shape), dtype=torch.uint8, generator=generator)
    return torch.randn(7, *field.shape, generator=generator)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("action", [DISCRETE, MULTI, BOX], ids=lambda action: action.kind)
@pytest.mark.parametrize("field", [VECTOR, ATARI], ids=["vector", "atari"])
def test_heads_are_float32(field: ArraySpec, action: ActionSpec, shared: bool, precision: str) -> None:
    own = network(field, action, shared)
    apply_precision(own, precision, CPU)
    policy, value = own(observations(field))
    assert policy.shape == (7, policy_distribution(action).num_parameters)
    assert value.shape == (7,)
    assert policy.dtype == value.dtype == torch.float32
    torso_types = {parameter.dtype for parameter in own.torso.parameters()}
    assert torso_types == {torch.bfloat16 if precision == "bf16" else torch.float32}
    assert own.value_head.weight.dtype == own.policy_head.weight.dtype == torch.float32


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("action", [DISCRETE, MULTI, BOX], ids=lambda action: action.kind)
def test_the_policy_is_the_same_without_the_value_head(action: ActionSpec, shared: bool) -> None:
    own, given = network(VECTOR, action, shared), observations(VECTOR)
    policy, values = own(given, with_values=False)
    assert torch.equal(policy, own(given)[0])
    assert values.shape == (7,) and not values.any()


def test_bf16_is_near_fp32() -> None:
    single_precision, low = network(ATARI, DISCRETE, True), network(ATARI, DISCRETE, True)
    apply_precision(low, "bf16", CPU)
    given = observations(ATARI)
    for exact, rounded in zip(single_precision(given), low(given), strict=True):
        assert not torch.equal(exact, rounded)
        torch.testing.assert_close(exact, rounded, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("action", [DISCRETE, MULTI], ids=lambda action: action.kind)
def test_the_first_policy_is_near_uniform(action: ActionSpec) -> None:
    policy, _ = network(VECTOR, action, False)(10 * observations(VECTOR))
    assert float(policy.detach().abs().max()) < 0.05


def test_a_gaussian_policy_begins_with_deviation_one_and_learns_it() -> None:
    own = network(VECTOR, BOX, False)
    policy, _ = own(observations(VECTOR))
    assert torch.equal(policy[:, 3:], torch.zeros(7, 3))
    policy[:, 3:].sum().backward()
    assert own.log_deviation.grad is not None
    assert own.log_deviation.grad.tolist() == [7.0] * 3


def test_separate_torsos_share_nothing() -> None:
    own = network(VECTOR, DISCRETE, shared=False)
    _, value = own(observations(VECTOR))
    value.sum().backward()
    assert all(parameter.grad is None for parameter in own.torso.parameters())
    assert own.value_torso is not None
    assert all(parameter.grad is not None for parameter in own.value_torso.parameters())


def test_a_shared_torso_learns_from_both() -> None:
    own = network(VECTOR, DISCRETE, shared=True)
    assert own.value_torso is None
    for output in (0, 1):
        own.zero_grad()
        own(observations(VECTOR))[output].sum().backward()
        assert all(parameter.grad is not None for parameter in own.torso.parameters())
