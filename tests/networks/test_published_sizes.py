"""The networks have the sizes of their papers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from veldt.networks.torsos import ConvolutionalTorso, ImpalaTorso, a3c_net, dqn_net, small_net


def convolution_shapes(torso: ConvolutionalTorso, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """(filters, height, width) after each convolution."""
    x, shapes = torch.zeros(1, *shape), []
    for convolution in torso.convolutions:
        x = convolution(x)
        shapes.append(tuple(x.shape[1:]))
    return shapes


def test_a3c_net_on_104x80() -> None:
    torso = a3c_net((4, 104, 80))
    assert convolution_shapes(torso, (4, 104, 80)) == [(16, 25, 19), (32, 12, 9)]
    assert torso.full.weight.shape == (256, 32 * 12 * 9)
    assert torso.features == 256


def test_dqn_net_on_84x84() -> None:
    torso = dqn_net((4, 84, 84))
    assert convolution_shapes(torso, (4, 84, 84)) == [(32, 20, 20), (64, 9, 9), (64, 7, 7)]
    assert torso.full.weight.shape == (512, 3136)
    # Convolutions and hidden layer of Mnih et al. 2015: 77,984 + 1,606,144.
    assert sum(p.numel() for p in torso.parameters()) == 1_684_128


def test_dqn_net_on_104x80() -> None:
    torso = dqn_net((4, 104, 80))
    assert convolution_shapes(torso, (4, 104, 80)) == [(32, 25, 19), (64, 12, 9), (64, 12, 9)]
    assert torso.features == 512


def test_impala_on_84x84() -> None:
    torso = ImpalaTorso((4, 84, 84))
    assert torso.full.weight.shape == (256, 32 * 11 * 11)
    # 15 convolutions: three stages of one and two blocks of two.
    assert sum(isinstance(module, nn.Conv2d) for module in torso.modules()) == 15


@pytest.mark.parametrize("make", [a3c_net, dqn_net, ImpalaTorso, small_net])
@pytest.mark.parametrize("shape", [(4, 104, 80), (3, 64, 48), (1, 37, 90)])
def test_features_come_out_as_declared_and_pixels_scaled(make: type, shape: tuple[int, ...]) -> None:
    torso = make(shape)
    image = torch.randint(0, 256, (2, *shape), dtype=torch.uint8)
    features: Tensor = torso(image)
    assert features.shape == (2, torso.features)
    torso.scale = 1.0
    torch.testing.assert_close(features, torso(image.float() / 255), rtol=1e-4, atol=1e-4)
