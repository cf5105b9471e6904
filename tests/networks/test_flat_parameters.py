"""One vector holds all parameters, and the network computes as it did before."""

from __future__ import annotations

import pytest
import torch
from specs import ATARI, DISCRETE, VECTOR, single
from torch import Tensor, nn

from veldt.envs.spec import ArraySpec
from veldt.networks.actor_critic import ActorCritic
from veldt.networks.build import build_torso
from veldt.networks.flat import FlatParameters
from veldt.networks.precision import apply_precision

CPU = torch.device("cpu")
FIELDS = pytest.mark.parametrize("field", [VECTOR, ATARI], ids=["vector", "atari"])


def network(field: ArraySpec, seed: int = 0) -> ActorCritic:
    torch.manual_seed(seed)
    return ActorCritic(lambda: build_torso("auto", single(field), (16, 16)), DISCRETE, True)


def observations(field: ArraySpec) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if field.dtype == "uint8":
        return torch.randint(0, 256, (5, *field.network_shape), dtype=torch.uint8, generator=generator)
    return torch.randn(5, *field.shape, generator=generator)


def some_loss(own: nn.Module, given: Tensor) -> Tensor:
    policy, value = own(given)
    return policy.logsumexp(-1).sum() + (value - 1.0).square().sum()


@FIELDS
def test_flat_parameters_do_not_change_outputs(field: ArraySpec) -> None:
    own, given = network(field), observations(field)
    before = own(given)
    FlatParameters(own)
    for was, now in zip(before, own(given), strict=True):
        torch.testing.assert_close(now, was)


@FIELDS
def test_the_gradient_equals_autograd(field: ArraySpec) -> None:
    own, reference, given = network(field), network(field), observations(field)
    parameters = FlatParameters(own)
    some_loss(reference, given).backward()
    parameters.backward(some_loss(own, given))
    for name, gradient in parameters.split(parameters.gradient).items():
        torch.testing.assert_close(gradient, reference.get_parameter(name).grad)


def test_a_second_gradient_replaces_the_first() -> None:
    own, given = network(VECTOR), observations(VECTOR)
    parameters = FlatParameters(own)
    parameters.backward(some_loss(own, given))
    once = parameters.gradient.clone()
    parameters.backward(some_loss(own, given))
    assert torch.equal(parameters.gradient, once)


@FIELDS
def test_a_change_of_the_vector_changes_the_network(field: ArraySpec) -> None:
    own, given = network(field), observations(field)
    parameters = FlatParameters(own)
    assert parameters.fp32_params.numel() == sum(p.numel() for p in own.parameters())
    parameters.fp32_params.zero_()
    policy, value = own(given)
    assert not policy.any()
    assert not value.any()


def test_convolutions_keep_channels_last_memory() -> None:
    own = network(ATARI)
    parameters = apply_precision(own, "fp32", CPU)
    weights = [p for p in own.parameters() if p.ndim == 4]
    assert len(weights) == 2
    begin = parameters.fp32_params.data_ptr()
    for weight in weights:
        assert weight.is_contiguous(memory_format=torch.channels_last)
        assert begin <= weight.data_ptr() < begin + parameters.fp32_params.numel() * 4


def test_split_gives_views_in_the_parameters_shapes() -> None:
    own = network(ATARI)
    parameters = FlatParameters(own)
    vector = torch.arange(parameters.fp32_params.numel(), dtype=torch.float32)
    pieces = parameters.split(vector)
    assert {name: piece.shape for name, piece in pieces.items()} == {
        name: parameter.shape for name, parameter in own.named_parameters()
    }
    # Every number of the vector is in exactly one piece, and writing to a piece writes to the vector.
    assert torch.equal(torch.cat([piece.flatten() for piece in pieces.values()]).sort().values, vector)
    pieces["value_head.bias"].fill_(-1.0)
    assert (vector == -1.0).sum() == 1
    # An accumulator's piece lies where its fp32 parameter lies.
    names = parameters.tensors()
    parameters.fp32_params.copy_(vector)
    assert all(torch.equal(parameters.split(vector)[name], tensor) for name, tensor in names.items())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@FIELDS
def test_stored_tensors_make_the_same_network(field: ArraySpec, precision: str) -> None:
    one, other, given = network(field, 1), network(field, 2), observations(field)
    first, second = (apply_precision(own, precision, CPU) for own in (one, other))
    stored = {name: tensor.clone().contiguous() for name, tensor in first.tensors().items()}
    assert not torch.equal(one(given)[0], other(given)[0])
    second.load(stored)
    assert torch.equal(first.fp32_params, second.fp32_params)
    for mine, theirs in zip(one(given), other(given), strict=True):
        assert torch.equal(mine, theirs)


def test_a_wrong_shape_is_an_error() -> None:
    parameters = FlatParameters(network(VECTOR))
    stored = {name: tensor.clone() for name, tensor in parameters.tensors().items()}
    # A shape that would broadcast is no better than any other.
    stored["policy_head.weight"] = stored["policy_head.weight"][:1]
    with pytest.raises(RuntimeError, match=r"policy_head.weight has shape \(1, 16\), expected \(6, 16\)"):
        parameters.load(stored)


def test_a_missing_name_is_an_error() -> None:
    parameters = FlatParameters(network(VECTOR))
    stored = {name: tensor for name, tensor in parameters.tensors().items() if name != "value_head.bias"}
    with pytest.raises(KeyError, match=r"value_head\.bias"):
        parameters.load(stored)


def test_fp32_parameters_add_up_steps_smaller_than_bf16_resolves() -> None:
    own = network(VECTOR)
    parameters = apply_precision(own, "bf16", CPU)
    parameters.fp32_params.fill_(1.0)
    parameters.refresh()
    weight = own.torso.layers[0].weight
    assert weight.dtype == torch.bfloat16
    for step in range(1, 101):  # bf16 knows nothing between 1 and 1 + 2^-7
        parameters.fp32_params.add_(2.0**-12)
        parameters.refresh()
        if step == 4:
            assert (weight == 1.0).all()
    assert (parameters.fp32_params == 1.0 + 100 * 2.0**-12).all()
    assert (weight == 1.0 + 2.0**-7 * 3).all()
    assert (own.value_head.weight == 1.0 + 100 * 2.0**-12).all()


def test_gradients_of_a_bf16_torso_arrive_in_fp32() -> None:
    own, reference, given = network(ATARI), network(ATARI), observations(ATARI)
    parameters = apply_precision(own, "bf16", CPU)
    some_loss(reference, given).backward()
    parameters.backward(some_loss(own, given))
    assert parameters.gradient.dtype == torch.float32
    for name, gradient in parameters.split(parameters.gradient).items():
        expected = reference.get_parameter(name).grad
        assert expected is not None
        assert float((gradient - expected).norm() / expected.norm()) < 0.05, name


class HalfUsed(nn.Module):
    """A user's module with a layer that is never called and one that must not learn."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused, self.frozen = nn.Linear(5, 4), nn.Linear(5, 4), nn.Linear(4, 4)
        self.frozen.requires_grad_(False)

    def forward(self, vector: Tensor) -> Tensor:
        return self.frozen(self.used(vector))


def test_unused_and_frozen_parameters_have_a_zero_gradient() -> None:
    own = HalfUsed()
    parameters = FlatParameters(own)
    parameters.gradient.fill_(7.0)
    parameters.backward(own(observations(VECTOR)).square().sum())
    gradients = parameters.split(parameters.gradient)
    assert gradients["used.weight"].any()
    for name in ("unused.weight", "unused.bias", "frozen.weight", "frozen.bias"):
        assert not gradients[name].any()


def test_values_of_a_network_that_contains_this_one_are_refused() -> None:
    parameters = FlatParameters(network(VECTOR))
    before = parameters.fp32_params.clone()
    with pytest.raises(RuntimeError, match="the network has no parameter second torso"):
        parameters.load({**parameters.tensors(), "second torso": torch.zeros(3)})
    assert torch.equal(parameters.fp32_params, before)
