"""Normalises observations by their running mean and variance, in front of a network.

The statistics are buffers of the network, in float64, so they are wherever its weights are: in checkpoints, loaded
agents, actors and evaluators. No update rule and no gradient changes them. A target network gets them when it gets the
parameters. `learning/normalisation.py` updates them, from training data only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.functional.moments import EPSILON, Moments
from veldt.runtime.devices import to_device

NAME = "observation_normaliser"  # the attribute of a network; the names of its buffers begin with it
CLIP = 10.0  # normalised observations lie in [-CLIP, CLIP], as in VecNormalize and CleanRL


def is_normalised(field: ArraySpec) -> bool:
    """Whether a field is normalised: the real numbers of a Box. Images (uint8), one-hot and flattened discrete values
    are not."""
    return field.is_box and field.dtype == "float32" and field.stack == 1


class ObservationNormaliser(nn.Module):
    """Maps observations to (x - mean) / sqrt(variance + 1e-8), clipped to ±10; other fields stay as they are.

    Args:
        spec: the env's, with at least one field for which `is_normalised` is true.
    """

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self._names = [name for name, field in spec.observation.items() if is_normalised(field)]
        self.fields = nn.ModuleList(_Field(spec.observation[name].shape) for name in self._names)

    def forward(self, observation: Tensor | dict[str, Tensor]) -> Tensor | dict[str, Tensor]:
        if isinstance(observation, dict):
            pairs = zip(self._names, self.fields, strict=True)
            return observation | {name: field(observation[name]) for name, field in pairs}
        normalised: Tensor = self.fields[0](observation)
        return normalised

    def before(self, network: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """A forward pre-hook: normalises the first input of a network, the observation."""
        return (self(inputs[0]), *inputs[1:])

    def statistics(self) -> Iterator[tuple[str, _Field]]:
        """Yields each normalised field's name and its statistics."""
        for name, field in zip(self._names, self.fields, strict=True):
            assert isinstance(field, _Field)
            yield name, field

    def moments(self) -> list[Moments]:
        """Returns the statistics of each field, in the order of `statistics`: an accelerator is waited for once."""
        numbers = iter(torch.cat([buffer.flatten() for buffer in self.buffers()]).tolist())
        return [
            Moments.of_numbers(list(itertools.islice(numbers, 1 + 2 * math.prod(field.shape))), field.shape)
            for _, field in self.statistics()
        ]

    @torch.no_grad()
    def store(self, moments: Sequence[Moments]) -> None:
        """Replaces the statistics of all fields, in place: published weights are views of them.

        An accelerator gets them in one copy, and is not waited for.
        """
        numbers = torch.tensor([number for each in moments for number in each.numbers()], dtype=torch.float64)
        buffers = list(self.buffers())
        parts = to_device(numbers, buffers[0].device).split([buffer.numel() for buffer in buffers])
        for buffer, part in zip(buffers, parts, strict=True):
            buffer.copy_(part.view_as(buffer))


class _Field(nn.Module):
    """The statistics of one field: `count` [], `mean` and `variance` of the field's shape, all float64.

    In this order they are `Moments.numbers`.
    """

    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        none = Moments.none(shape)
        self.register_buffer("count", torch.tensor(none.count, dtype=torch.float64))
        self.register_buffer("mean", torch.from_numpy(none.mean))
        self.register_buffer("variance", torch.from_numpy(none.variance))

    def forward(self, x: Tensor) -> Tensor:
        # In float32: rounding the mean moves results by less than the rounding of the observations already has.
        deviation = (self.variance + EPSILON).sqrt().float()
        return ((x - self.mean.float()) / deviation).clamp(-CLIP, CLIP)


def put_in_front(network: nn.Module, spec: EnvSpec) -> None:
    """Makes `network` normalise the observations that it is called with, if any field of them is normalised.

    It is a hook and not a wrapper, because parameter groups and target networks are found by the names of parameters,
    and a wrapper would change these.
    """
    if any(map(is_normalised, spec.observation.values())):
        normaliser = ObservationNormaliser(spec)
        network.add_module(NAME, normaliser)
        network.register_forward_pre_hook(normaliser.before)


def normaliser_of(network: nn.Module) -> ObservationNormaliser | None:
    """Returns the network's normaliser; None if it has none."""
    found = getattr(network, NAME, None)
    return found if isinstance(found, ObservationNormaliser) else None
