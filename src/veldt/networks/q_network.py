"""Q values, or categorical distributions of returns, computed from a torso's body."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from veldt.networks.noisy import NoisyLinear
from veldt.networks.torsos import norm, orthogonal

_DUELING_GRADIENT = 1.0 / math.sqrt(2.0)


class QNetwork(nn.Module):
    """Q(s, ·), or for every action the logits of a categorical distribution of returns.

    After the body comes a stream of two fully connected layers (one layer, if the body is a user's own module). Dueling
    networks have two streams, for the state value and for the advantages; their joint gradient enters the body scaled
    by 1/√2 (Wang et al. 2016, equation 9 and section 4.2). For distributions, the streams are added as logits, atom by
    atom (Hessel et al. 2018).

    The output layers compute in fp32 in any precision setting.

    Args:
        build_body: builds a torso without its last layer (see `torsos`).
        actions: number of actions.
        atoms: atoms of the distribution; 1 for plain values.
        dueling: whether there are two streams.
        noisy: whether the streams use noisy layers.
        sigma: initial σ of noisy layers.

    `noise_width` is the number of noise values per row, 0 without noisy layers.
    """

    def __init__(
        self,
        build_body: Callable[[], nn.Module],
        actions: int,
        *,
        atoms: int = 1,
        dueling: bool,
        noisy: bool,
        sigma: float = 0.5,
    ) -> None:
        super().__init__()
        self.torso = build_body()
        self.actions, self.atoms = actions, atoms
        self.advantage = _Stream(self.torso, actions * atoms, noisy, sigma)
        self.value = _Stream(self.torso, atoms, noisy, sigma) if dueling else None
        self.noise_width = self.advantage.noise_width + (self.value.noise_width if self.value else 0)

    def low_precision_parts(self) -> list[nn.Module]:
        """The modules that may compute in bf16: all except the output layers."""
        hidden_layers = (stream.hidden for stream in (self.advantage, self.value) if stream is not None)
        return [self.torso, *(layer for layer in hidden_layers if layer is not None)]

    def forward(self, observation: Tensor | dict[str, Tensor], noise: Tensor | None = None) -> Tensor:
        """Returns values float32 [N, A], or with several atoms logits float32 [N, A, atoms].

        Args:
            noise: standard normals, [N, noise_width], or [1, noise_width] for the same noise in all rows; None uses the
                mean weights of noisy layers.
        """
        features = self.torso(observation)
        if self.value is None:
            return self._by_action(self.advantage(features, noise))
        # Scales the gradient only; the features stay exactly the same in any precision.
        features = torch.lerp(features.detach(), features, _DUELING_GRADIENT)
        for_advantage, for_value = _split(noise, self.advantage.noise_width)
        advantage = self.advantage(features, for_advantage).unflatten(-1, (self.actions, self.atoms))
        value = self.value(features, for_value).unsqueeze(1)
        return self._by_action(value + advantage - advantage.mean(1, keepdim=True))

    def _by_action(self, output: Tensor) -> Tensor:
        shape = (self.actions,) if self.atoms == 1 else (self.actions, self.atoms)
        return output.reshape(-1, *shape)


class _Stream(nn.Module):
    """Maps the body's features to outputs: the torso's last layer, with ReLU, and the output layer."""

    def __init__(self, body: nn.Module, outputs: int, noisy: bool, sigma: float) -> None:
        super().__init__()
        features, width = int(body.features), int(body.last_layer_width)  # type: ignore[arg-type]
        self.hidden: nn.Linear | NoisyLinear | None = None
        self.last: nn.Linear | NoisyLinear
        if noisy:
            self.hidden = NoisyLinear(features, width, sigma) if width else None
            self.last = NoisyLinear(width or features, outputs, sigma)
        else:
            self.hidden = orthogonal(nn.Linear(features, width)) if width else None
            # dqn_zoo and CleanRL draw weights from U(±1/√inputs); their rows have 0.58 of this norm.
            self.last = orthogonal(nn.Linear(width or features, outputs), 1.0)
        self.norm = norm(width, self.hidden is not None and bool(body.layer_norm))
        self.noise_width = _noise_width(self.hidden) + _noise_width(self.last)

    def forward(self, features: Tensor, noise: Tensor | None) -> Tensor:
        for_hidden, for_last = _split(noise, _noise_width(self.hidden))
        x = features
        if self.hidden is not None:
            x = F.relu(self.norm(_apply(self.hidden, x.to(self.hidden.weight.dtype), for_hidden).float()))
        return _apply(self.last, x.float(), for_last)


def _noise_width(layer: nn.Module | None) -> int:
    return layer.noise_width if isinstance(layer, NoisyLinear) else 0


def _split(noise_NK: Tensor | None, width: int) -> tuple[Tensor | None, Tensor | None]:
    """Splits each row's noise into its first `width` values and the rest."""
    return (None, None) if noise_NK is None else (noise_NK[:, :width], noise_NK[:, width:])


def _apply(layer: nn.Linear | NoisyLinear, x: Tensor, noise: Tensor | None) -> Tensor:
    return layer(x, noise) if isinstance(layer, NoisyLinear) else layer(x)
