"""A torso without its last layer equals the same torso up to that layer."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from specs import ATARI, COLOUR, TINY, VECTOR, single, spec
from torch import Tensor, nn

from veldt.envs.spec import ArraySpec
from veldt.networks.build import DictTorso, ImageTorso, UserTorso, build_torso
from veldt.networks.deterministic import DeterministicActorCritic
from veldt.networks.q_network import QNetwork
from veldt.networks.torsos import MLP, Activation, dqn_net

HIDDEN = (32, 16)
IMAGE_WIDTHS = {"a3c": 256, "dqn": 512, "impala": 256, "small": 128}


def observations(field: ArraySpec) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if field.dtype == "uint8":
        return torch.randint(0, 256, (3, *field.network_shape), dtype=torch.uint8, generator=generator)
    return torch.randn(3, *field.shape, generator=generator)


@pytest.mark.parametrize("name", IMAGE_WIDTHS)
@pytest.mark.parametrize("field", [ATARI, COLOUR], ids=["atari", "colour"])
def test_an_image_body_and_its_top_are_the_torso(name: str, field: ArraySpec) -> None:
    torso, body = (
        build_torso(name, single(field), HIDDEN),
        build_torso(name, single(field), HIDDEN, last_layer=False),
    )
    weights = torso.state_dict()
    last = {key: weights.pop(f"torso.full.{key}") for key in ("weight", "bias")}
    body.load_state_dict(weights)  # strict: nothing else is left out
    features = body(observations(field))
    assert features.shape == (3, body.features)
    assert body.last_layer_width == IMAGE_WIDTHS[name] == torso.features
    assert torso.last_layer_width == 0
    torch.testing.assert_close(F.relu(F.linear(features, **last)), torso(observations(field)))


@pytest.mark.parametrize(("activation", "function"), [("tanh", torch.tanh), ("relu", F.relu)])
def test_an_mlp_body_and_its_top_are_the_torso(activation: Activation, function: object) -> None:
    torso = build_torso("mlp", single(VECTOR), HIDDEN, activation=activation)
    body = build_torso("mlp", single(VECTOR), HIDDEN, activation=activation, last_layer=False)
    weights = torso.state_dict()
    last = {key: weights.pop(f"layers.1.{key}") for key in ("weight", "bias")}
    body.load_state_dict(weights)
    given = observations(VECTOR)
    features = body(given)
    assert (body.features, body.last_layer_width) == HIDDEN
    assert (torso.features, torso.last_layer_width) == (HIDDEN[-1], 0)
    assert torch.equal(features, function(F.linear(given, weights["layers.0.weight"])))  # type: ignore[operator]
    assert torch.equal(function(F.linear(features, **last)), torso(given))  # type: ignore[operator]


def test_an_mlps_units_are_normalised_before_the_activation() -> None:
    torso = build_torso("mlp", single(VECTOR), HIDDEN, activation="relu", layer_norm=True)
    x_NF = observations(VECTOR)
    for layer in torso.layers:  # type: ignore[union-attr]
        y_NF = F.linear(x_NF, layer.weight, layer.bias)
        deviation_N1 = (y_NF.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
        x_NF = ((y_NF - y_NF.mean(1, keepdim=True)) / deviation_N1).relu()
    torch.testing.assert_close(torso(observations(VECTOR)), x_NF)


@pytest.mark.parametrize("dueling", [False, True])
def test_layers_on_a_normalised_body_are_normalised(dueling: bool) -> None:
    def build() -> nn.Module:
        return build_torso("mlp", single(VECTOR), HIDDEN, last_layer=False, layer_norm=True)

    streams = 2 if dueling else 1
    q = QNetwork(build, 3, dueling=dueling, noisy=False)
    assert sum(isinstance(part, nn.LayerNorm) for part in q.modules()) == 1 + streams
    # The scale of a normalised layer's weights does not matter.
    before = q(observations(VECTOR))
    with torch.no_grad():
        for part in (q.torso.layers[0], q.advantage.hidden):  # type: ignore[index]
            part.weight *= 8.0  # type: ignore[union-attr, operator]
            part.bias *= 8.0  # type: ignore[union-attr, operator]
    torch.testing.assert_close(q(observations(VECTOR)), before, rtol=1e-3, atol=1e-3)
    critic = DeterministicActorCritic(build, 2)
    assert sum(isinstance(part, nn.LayerNorm) for part in critic.modules()) == 4


def test_the_default_activation_of_an_mlp_is_tanh() -> None:
    torso = build_torso("mlp", single(VECTOR), HIDDEN)
    assert float(torso(observations(VECTOR)).detach().min()) < 0


def test_the_body_of_one_layer_is_the_scaled_input() -> None:
    body = build_torso("mlp", single(TINY), (16,), last_layer=False)
    assert (body.features, body.last_layer_width) == (600, 16)
    assert not list(body.parameters())
    torch.testing.assert_close(body(observations(TINY)), observations(TINY).flatten(1) / 255)


def test_the_bodies_of_a_dicts_fields_are_concatenated() -> None:
    wanted = spec(camera=COLOUR, velocity=VECTOR)
    body = build_torso("auto", wanted, HIDDEN, last_layer=False)
    assert isinstance(body, DictTorso)
    assert [type(part) for part in body.torsos] == [ImageTorso, MLP]
    given = {"camera": observations(COLOUR), "velocity": observations(VECTOR)}
    assert body(given).shape == (3, body.features)
    assert body.features == sum(part.features for part in body.torsos)  # type: ignore[misc]
    assert body.last_layer_width == 256 + 16


def test_a_users_module_is_not_split_into_body_and_top() -> None:
    body = build_torso(lambda shape: nn.Linear(shape[0], 7), single(VECTOR), HIDDEN, last_layer=False)
    assert isinstance(body, UserTorso)
    assert (body.features, body.last_layer_width) == (7, 0)


def test_dqn_nets_body_has_the_convolutions_of_the_paper() -> None:
    body = dqn_net((4, 84, 84), last_layer=False)
    assert (body.features, body.last_layer_width) == (3136, 512)
    assert sum(p.numel() for p in body.parameters()) == 77_984
