"""Networks as a user writes them: a function from an observation's shape to a module with features [N, F]."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import Tensor, nn


def flat(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 12), nn.ReLU())


class OfFields(nn.Module):
    """For a dictionary of observations."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(
            {name.replace("/", "-"): nn.Linear(math.prod(shape), 5) for name, shape in shapes.items()}
        )

    def forward(self, fields: dict[str, Tensor]) -> Tensor:
        return torch.cat(
            [self.parts[n.replace("/", "-")](x.flatten(1).float()) for n, x in fields.items()], -1
        )


def too_many_axes(shape: tuple[int, ...]) -> nn.Module:
    return nn.Identity() if len(shape) > 1 else nn.Unflatten(1, (2, 2))


def no_module(shape: tuple[int, ...]) -> str:
    return "a network"


def of_other_size(shape: tuple[int, ...]) -> nn.Module:
    return nn.Linear(shape[0] + 1, 8)


def confused(shape: tuple[int, ...]) -> nn.Module:
    return nn.Linear(shape + 1, 8)  # type: ignore[operator]


def with_batch_norm(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU())


class Drifting(nn.Module):
    """Of the second of several learners it becomes another one by itself, after some time."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layer, self._calls = nn.Linear(inputs, 8), 0

    def forward(self, observation: Tensor) -> Tensor:
        self._calls += 1
        if self._calls == 100 and dist.is_initialized() and dist.get_rank() == 1:
            with torch.no_grad():
                self.layer.weight += 1e-3
        features: Tensor = self.layer(observation)
        return features


def drifting(shape: tuple[int, ...]) -> nn.Module:
    return Drifting(shape[0])
