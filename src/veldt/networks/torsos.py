"""Torsos: map one observation array to a feature vector.

A torso takes observations as they are stored (images `[N, C, H, W]`, vectors `[N, D]`) and multiplies them by its
`scale`, which depends on what is observed and not on the dtype: pixels may be uint8, or already in the torso's
precision. Images are computed in the channels-last layout and in the precision of the weights. With `last_layer=False`
the last fully connected layer is left out, and the torso is called a body.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_RELU_GAIN = math.sqrt(2.0)
PIXEL = 1.0 / 255.0  # the scale of pixels 0 to 255

Activation = Literal["tanh", "relu"]
_Layer = TypeVar("_Layer", bound=nn.Module)


def orthogonal(layer: _Layer, gain: float = _RELU_GAIN) -> _Layer:
    """Orthogonal weights and zero biases (Saxe et al. 2014), as in OpenAI's baselines."""
    nn.init.orthogonal_(layer.weight, gain)  # type: ignore[arg-type]
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


def norm(width: int, is_wanted: bool) -> nn.Module:
    """The layer between a linear layer and its activation: LayerNorm or nothing."""
    return nn.LayerNorm(width) if is_wanted else nn.Identity()


def _dtype(layers: Iterable[nn.Module]) -> torch.dtype:
    """The precision of the layers. (Iterating over all parameters would take as long as a small layer.)"""
    return next((layer.weight.dtype for layer in layers), torch.float32)  # type: ignore[return-value]


class ConvolutionalTorso(nn.Module):
    """Convolutions with ReLU, then one fully connected layer.

    Args:
        shape: (channels, height, width) of the image.
        convolutions: (filters, kernel, stride, padding) of each.
        width: units of the fully connected layer.
        last_layer: whether to include that layer.
    """

    layer_norm = False

    def __init__(
        self,
        shape: Sequence[int],
        convolutions: Sequence[tuple[int, int, int, int]],
        width: int,
        last_layer: bool = True,
    ) -> None:
        super().__init__()
        channels, height, side = shape
        layers = []
        for filters, kernel, stride, padding in convolutions:
            layers.append(orthogonal(nn.Conv2d(channels, filters, kernel, stride, padding)))
            channels = filters
            height = (height + 2 * padding - kernel) // stride + 1
            side = (side + 2 * padding - kernel) // stride + 1
        self.convolutions: Iterable[nn.Conv2d] = nn.ModuleList(layers)  # type: ignore[assignment]
        body = channels * height * side
        self.full = orthogonal(nn.Linear(body, width)) if last_layer else None
        self.features, self.last_layer_width = (width, 0) if last_layer else (body, width)
        self.scale = PIXEL

    def forward(self, image: Tensor) -> Tensor:
        """Maps [N, C, H, W] of any dtype to [N, features]."""
        x = image.to(dtype=_dtype(self.convolutions))
        for index, convolution in enumerate(self.convolutions):
            x = F.relu(_convolve_scaled(convolution, x, self.scale) if index == 0 else convolution(x))
        x = _flatten(x)
        return x if self.full is None else F.relu(self.full(x))


def _convolve_scaled(convolution: nn.Conv2d, x: Tensor, scale: float) -> Tensor:
    """The convolution of `scale` x. It scales the weights, which is a thousandth of the work of scaling the pixels."""
    return F.conv2d(x, convolution.weight * scale, convolution.bias, convolution.stride, convolution.padding)


def _flatten(x: Tensor) -> Tensor:
    """[N, C, H, W] to [N, H W C]: a view of the channels-last tensor, so the gradient has the same layout.

    The usual order, C H W, needs a copy. Its gradient then has another layout than the activation in the ReLU before,
    which makes the ReLU's backward pass 20 times slower.
    """
    return x.permute(0, 2, 3, 1).flatten(1)


def a3c_net(shape: Sequence[int], last_layer: bool = True) -> ConvolutionalTorso:
    """A3C-Net (Mnih et al. 2016; padding of the second convolution as in Stooke & Abbeel, A.1)."""
    return ConvolutionalTorso(shape, [(16, 8, 4, 0), (32, 4, 2, 1)], 256, last_layer)


def dqn_net(shape: Sequence[int], last_layer: bool = True) -> ConvolutionalTorso:
    """DQN-Net (Mnih et al. 2015). Padding 1 after the first convolution on 104x80 frames (Stooke & Abbeel, A.1)."""
    padding = 1 if tuple(shape[1:]) == (104, 80) else 0
    return ConvolutionalTorso(
        shape, [(32, 8, 4, 0), (64, 4, 2, padding), (64, 3, 1, padding)], 512, last_layer
    )


def small_net(shape: Sequence[int], last_layer: bool = True) -> ConvolutionalTorso:
    """For images of few pixels: one 3x3 convolution of 16 filters, then 128 units (Young & Tian 2019, MinAtar)."""
    return ConvolutionalTorso(shape, [(16, 3, 1, 0)], 128, last_layer)


class MLP(nn.Module):
    """Fully connected layers, each with an activation. The body of an MLP with one layer is its scaled input.

    With `layer_norm` the units of each layer are normalised before the activation (Ba et al. 2016, equation 4); so are
    those of the last layer that a body leaves out.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        scale: float,
        *,
        activation: Activation,
        last_layer: bool,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        sizes = [inputs, *(hidden if last_layer else hidden[:-1])]
        self.layers = nn.ModuleList(orthogonal(nn.Linear(a, b)) for a, b in itertools.pairwise(sizes))
        self.norms = nn.ModuleList(norm(width, layer_norm) for width in sizes[1:])
        self.layer_norm = layer_norm
        self.features, self.scale, self.activation = sizes[-1], scale, activation
        self.last_layer_width = 0 if last_layer else hidden[-1]

    def forward(self, vector: Tensor) -> Tensor:
        """Maps [N, ...] of any dtype to [N, features]."""
        x = vector.flatten(1).to(dtype=_dtype(self.layers))
        if self.scale != 1.0:
            x = x * self.scale
        for layer, normalised in zip(self.layers, self.norms, strict=True):
            x = normalised(layer(x))
            x = x.tanh() if self.activation == "tanh" else F.relu(x)
        return x


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = orthogonal(nn.Conv2d(channels, channels, 3, padding=1))
        self.second = orthogonal(nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.relu(self.first(F.relu(x))))


class ImpalaTorso(nn.Module):
    """The deep residual network of IMPALA (Espeholt et al. 2018, figure 3), without its LSTM.

    Three stages of 16, 32 and 32 channels, each with a convolution, a max-pooling by 2 and two residual blocks.
    """

    layer_norm = False

    def __init__(self, shape: Sequence[int], width: int = 256, last_layer: bool = True) -> None:
        super().__init__()
        channels, height, side = shape
        stages = []
        for filters in (16, 32, 32):
            stages += [
                orthogonal(nn.Conv2d(channels, filters, 3, padding=1)),
                nn.MaxPool2d(3, stride=2, padding=1),
                _Residual(filters),
                _Residual(filters),
            ]
            channels, height, side = filters, (height + 1) // 2, (side + 1) // 2
        self.stages = nn.Sequential(*stages)
        body = channels * height * side
        self.full = orthogonal(nn.Linear(body, width)) if last_layer else None
        self.features, self.last_layer_width = (width, 0) if last_layer else (body, width)
        self.scale = PIXEL

    def forward(self, image: Tensor) -> Tensor:
        """Maps [N, C, H, W] of any dtype to [N, features]."""
        x = _flatten(F.relu(self.stages(image.to(dtype=_dtype(self.stages)) * self.scale)))
        return x if self.full is None else F.relu(self.full(x))
