"""Builds a torso from a network's name and the env's observation spec."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.errors import UsageError
from veldt.networks.own import example, make_own, tried
from veldt.networks.registry import NETWORKS
from veldt.networks.torsos import MLP, PIXEL, Activation
from veldt.user_code.import_path import name_of

TorsoFactory = Callable[[tuple[int, ...]], nn.Module]


class ImageTorso(nn.Module):
    """Converts images to `[N, C, H, W]`: adds a missing channel axis, or moves the channel axis from the last place."""

    def __init__(
        self, shape: Sequence[int], build: Callable[[Sequence[int]], nn.Module], scale: float
    ) -> None:
        super().__init__()
        self.channels_last = _channels_last(shape)
        self.torso = build(image_shape(shape))
        self.torso.scale = scale  # type: ignore[assignment]
        self.features = int(self.torso.features)  # type: ignore[arg-type]
        self.last_layer_width = int(self.torso.last_layer_width)  # type: ignore[arg-type]
        self.layer_norm = bool(self.torso.layer_norm)

    def forward(self, image: Tensor) -> Tensor:
        if image.ndim == 3:
            image = image.unsqueeze(1)
        elif self.channels_last:
            image = image.permute(0, 3, 1, 2)
        return self.torso(image)


class DictTorso(nn.Module):
    """One torso for each field of a Dict observation; the features are concatenated.

    `last_layer_width` is the sum over the fields: the one last layer that follows has as many units as theirs together.
    """

    def __init__(self, torsos: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.names = list(torsos)
        self.torsos = nn.ModuleList(torsos.values())
        self.features: int = sum(int(torso.features) for torso in torsos.values())  # type: ignore[arg-type, misc]
        self.last_layer_width: int = sum(int(torso.last_layer_width) for torso in torsos.values())  # type: ignore[arg-type, misc]
        self.layer_norm = any(bool(torso.layer_norm) for torso in torsos.values())

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        pairs = zip(self.names, self.torsos, strict=True)
        return torch.cat([torso(observation[name]) for name, torso in pairs], -1)


class UserTorso(nn.Module):
    """A module given by the user. The constructor measures its number of features; `subject` names it in errors.

    The module is always used whole, also where a body is wanted, because its last layer is not known.
    """

    last_layer_width, layer_norm = 0, False

    def __init__(self, module: nn.Module, spec: EnvSpec, subject: str) -> None:
        super().__init__()
        self.module = module
        observation = example(spec)
        features = tried(subject, module, observation)
        if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
            got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise UsageError(
                f"{subject} returned {got} for a batch of 2 observations: it must return features [N, F]"
            )
        self.features = int(features.shape[1])

    def forward(self, observation: Tensor | Mapping[str, Tensor]) -> Tensor:
        return self.module(observation)


def is_own_network(network: str | TorsoFactory) -> bool:
    """Whether the network is the user's own: a callable, or `module:function`."""
    return not isinstance(network, str) or ":" in network


def build_torso(
    network: str | TorsoFactory,
    spec: EnvSpec,
    hidden: Sequence[int],
    *,
    last_layer: bool = True,
    activation: Activation = "tanh",
    layer_norm: bool = False,
) -> nn.Module:
    """Builds the torso for `spec`: a module with the attributes `features`, `last_layer_width` and `layer_norm`.

    Args:
        network: a name in `NETWORKS`, `module:function`, or a callable. A factory gets the shape of one observation (a
            dictionary of shapes for a Dict) and returns a module from observations [N, ...] to features [N, F].
        hidden: units of each layer of an MLP.
        last_layer: whether to include the last fully connected layer; without it, the torso is a body (see `torsos`).
        activation: activation of an MLP. Convolutional torsos use ReLU.
        layer_norm: whether an MLP uses layer normalisation.

    Raises:
        UsageError: the network does not exist, or it does not fit the observation.
        NetworkError: the user's own network raised an exception.
    """
    if not isinstance(network, str) or is_own_network(network):
        name = network if isinstance(network, str) else name_of(network)
        shape = spec.observation_shape
        module = make_own("network", network, shape, f"the shape {shape}")
        return UserTorso(module, spec, f"network {name}")
    entry = NETWORKS.find(network, or_else=", or give your own as module:function")
    if entry.make is not None and not entry.smallest_image:  # a plug-in's
        shape = spec.observation_shape
        subject = NETWORKS.described(network)
        module = make_own("network", entry.make, shape, f"the shape {shape}", subject)
        return UserTorso(module, spec, subject)
    if entry.smallest_image and not any(_may_be_image(field) for field in spec.observation.values()):
        shapes_text = ", ".join(str(field.network_shape) for field in spec.observation.values())
        raise UsageError(
            f"network '{network}' is for images, and this environment's observation has the shape {shapes_text}: "
            "use --network auto or mlp"
        )
    mlp = functools.partial(
        MLP, hidden=hidden, activation=activation, last_layer=last_layer, layer_norm=layer_norm
    )
    torsos = {name: _field_torso(network, field, mlp, last_layer) for name, field in spec.observation.items()}
    return DictTorso(torsos) if spec.is_dict else torsos[""]


def _field_torso(network: str, field: ArraySpec, mlp: Callable[..., MLP], last_layer: bool) -> nn.Module:
    shape = field.network_shape
    scale = scale_of(field)
    is_image = _is_image(field) if network == "auto" else _may_be_image(field)
    if network == "mlp" or not is_image:
        return mlp(math.prod(shape), scale=scale)
    side = min(image_shape(shape)[1:])
    if network == "auto":
        # Take the largest network for which the image has enough pixels.
        fits = (name for name in ("a3c", "small") if side >= NETWORKS[name].smallest_image)
        network = next(fits, "mlp")
        if network == "mlp":
            return mlp(math.prod(shape), scale=scale)
    entry = NETWORKS[network]
    assert entry.make is not None
    if side < entry.smallest_image:
        raise UsageError(
            f"network '{network}' needs images of at least {entry.smallest_image} pixels a side, and these have "
            f"the shape {shape}: use --network small or mlp"
        )
    return ImageTorso(shape, functools.partial(entry.make, last_layer=last_layer), scale)


def scale_of(field: ArraySpec) -> float:
    """What veldt's networks multiply the numbers of a field by: uint8 by 1 / 255, or 1 / the bound of their space.

    Planes of 0 and 1 would be 0 and 0.004 after a division by 255, from which networks hardly learn.
    """
    if field.dtype != "uint8":
        return 1.0
    return 1.0 / field.largest if 0 < field.largest < 255 else PIXEL


def _may_be_image(field: ArraySpec) -> bool:
    """Whether the shape is that of an image."""
    return len(field.network_shape) in (2, 3)


def _is_image(field: ArraySpec) -> bool:
    """Whether a field is taken for an image where no network is named: uint8, or three dimensions with finite bounds.

    A matrix of real numbers is more often several vectors, such as the last steps of one.
    """
    if field.dtype == "uint8":
        return _may_be_image(field)
    return field.is_box and len(field.network_shape) == 3 and math.isfinite(field.largest)


def image_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """(channels, height, width) of an image given as [H, W], [H, W, C] or [C, H, W]."""
    if len(shape) == 2:
        return (1, shape[0], shape[1])
    if _channels_last(shape):
        return (shape[2], shape[0], shape[1])
    return (shape[0], shape[1], shape[2])


def _channels_last(shape: Sequence[int]) -> bool:
    """Whether the last axis of an image is that of the channels: the two others are equal, or it is the shortest.

    Where this does not decide, channels are last, as Gymnasium's environments have them.
    """
    if len(shape) != 3:
        return False
    first, middle, last = shape
    if (first == middle) != (middle == last):
        return first == middle
    return last <= first
