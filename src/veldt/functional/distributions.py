"""Policies as distributions over stored actions, with the noise as an argument.

A sample is a function of (parameters, uniform noise), so that noise can belong to an env and a step, independent of the
batch in which the action is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Distribution(Protocol):
    """The distribution of one observation's action is described by P numbers; sampling an action takes K uniforms.

    P is `num_parameters`, K is `num_noise`. Parameters and prepared noise are float32 [N, P] and [N, K]; actions are
    int64 [N] or [N, D] (choices), or float32 [N, D] (real numbers).
    """

    @property
    def num_parameters(self) -> int: ...

    @property
    def num_noise(self) -> int: ...

    def prepare(self, uniform: Tensor) -> Tensor:
        """Transforms uniform noise in (0, 1), [..., noise], into the input of `sample` (once for a whole batch)."""

    def sample(self, parameters_NP: Tensor, noise_NK: Tensor) -> Tensor:
        """Returns actions [N] or [N, D]."""

    def mode(self, parameters_NP: Tensor) -> Tensor:
        """Returns the most likely actions."""

    def log_prob(self, parameters_NP: Tensor, action: Tensor) -> Tensor:
        """Returns the logarithm of the probability or density, [N]."""

    def entropy(self, parameters_NP: Tensor) -> Tensor:
        """Returns the entropy in nats, [N]."""

    def described(self, parameters_NP: Tensor) -> dict[str, Tensor]:
        """Returns the distribution in numbers that mean something by themselves, by name, each [N, ...]."""


@dataclass(frozen=True)
class Categorical:
    """One of `size` actions; the parameters are logits. Samples with the Gumbel trick: argmax of logits plus noise."""

    size: int

    @property
    def num_parameters(self) -> int:
        return self.size

    @property
    def num_noise(self) -> int:
        return self.size

    def prepare(self, uniform: Tensor) -> Tensor:
        return -torch.log(-torch.log(uniform))

    def sample(self, parameters_NP: Tensor, noise_NK: Tensor) -> Tensor:
        return (parameters_NP + noise_NK).argmax(-1)

    def mode(self, parameters_NP: Tensor) -> Tensor:
        return parameters_NP.argmax(-1)

    def log_prob(self, parameters_NP: Tensor, action: Tensor) -> Tensor:
        return F.log_softmax(parameters_NP, -1).gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self, parameters_NP: Tensor) -> Tensor:
        log_NP = F.log_softmax(parameters_NP, -1)
        return -(log_NP.exp() * log_NP).sum(-1)

    def described(self, parameters_NP: Tensor) -> dict[str, Tensor]:
        return {"probabilities": parameters_NP.softmax(-1)}


@dataclass(frozen=True)
class MultiCategorical:
    """Independent categorical choices, one per dimension; actions are [N, D]."""

    sizes: tuple[int, ...]

    @property
    def num_parameters(self) -> int:
        return sum(self.sizes)

    @property
    def num_noise(self) -> int:
        return sum(self.sizes)

    def prepare(self, uniform: Tensor) -> Tensor:
        return -torch.log(-torch.log(uniform))

    def sample(self, parameters_NP: Tensor, noise_NK: Tensor) -> Tensor:
        return self.mode(parameters_NP + noise_NK)

    def mode(self, parameters_NP: Tensor) -> Tensor:
        return torch.stack([logits.argmax(-1) for logits in parameters_NP.split(self.sizes, -1)], -1)

    def log_prob(self, parameters_NP: Tensor, action: Tensor) -> Tensor:
        parts = zip(self._parts(), parameters_NP.split(self.sizes, -1), action.unbind(-1), strict=True)
        return torch.stack([part.log_prob(logits, chosen) for part, logits, chosen in parts]).sum(0)

    def entropy(self, parameters_NP: Tensor) -> Tensor:
        parts = zip(self._parts(), parameters_NP.split(self.sizes, -1), strict=True)
        return torch.stack([part.entropy(logits) for part, logits in parts]).sum(0)

    def described(self, parameters_NP: Tensor) -> dict[str, Tensor]:
        parts = parameters_NP.split(self.sizes, -1)
        return {f"probabilities_{number}": logits.softmax(-1) for number, logits in enumerate(parts)}

    def _parts(self) -> list[Categorical]:
        return [Categorical(size) for size in self.sizes]


@dataclass(frozen=True)
class Gaussian:
    """Independent normal distributions; the parameters are D means and D log standard deviations.

    The density is that of the unclipped action. The bounds are applied at the env (`ActionSpec.to_env`): the map from
    stored action to env action is fixed, so it cancels out of every probability ratio and gradient.
    """

    size: int

    @property
    def num_parameters(self) -> int:
        return 2 * self.size

    @property
    def num_noise(self) -> int:
        return self.size

    def prepare(self, uniform: Tensor) -> Tensor:
        return torch.special.ndtri(uniform)

    def sample(self, parameters_NP: Tensor, noise_NK: Tensor) -> Tensor:
        mean_ND, log_deviation_ND = parameters_NP.chunk(2, -1)
        return mean_ND + log_deviation_ND.exp() * noise_NK

    def mode(self, parameters_NP: Tensor) -> Tensor:
        return parameters_NP.chunk(2, -1)[0]

    def log_prob(self, parameters_NP: Tensor, action: Tensor) -> Tensor:
        mean_ND, log_deviation_ND = parameters_NP.chunk(2, -1)
        standard_ND = (action - mean_ND) * (-log_deviation_ND).exp()
        return -(0.5 * standard_ND.square() + log_deviation_ND + 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self, parameters_NP: Tensor) -> Tensor:
        return (parameters_NP.chunk(2, -1)[1] + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def described(self, parameters_NP: Tensor) -> dict[str, Tensor]:
        mean_ND, log_deviation_ND = parameters_NP.chunk(2, -1)
        return {"mean": mean_ND, "deviation": log_deviation_ND.exp()}
