"""Raw observations, as an environment gives them, to the input of a network: as operations of a graph.

`ObservationCodec` in `envs.from_gymnasium` does the same to one observation at a time, on numpy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from veldt.envs.from_gymnasium.observation_codec import ObservationCodec
from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.errors import UsageError

NAME = "observation"  # of the only input; those of a Dict or a Tuple have a path after it
_BATCH = 2  # torch.export takes the sizes 0 and 1 as fixed


@dataclass(frozen=True)
class GraphArray:
    """An input or an output of a graph: `shape` is without the first axis, which is the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    meaning: str

    def example(self) -> Tensor:
        return torch.zeros(_BATCH, *self.shape, dtype=getattr(torch, self.dtype))


class RawObservations(nn.Module):
    """Maps raw observations, a tensor for each of `arrays` in their order, to what the network takes.

    Raises:
        UsageError: a part of the observation space has no such operations.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], spec: EnvSpec, is_atari: bool) -> None:
        super().__init__()
        space = env.observation_space
        self._space = space
        self._is_dict = spec.is_dict
        self._fields: Mapping[str, spaces.Space[Any]] = (
            {"": space} if is_atari else ObservationCodec(space).fields
        )
        self._specs: Mapping[str, ArraySpec] = spec.observation
        self.arrays = [
            array for name, field in self._fields.items() for array in _arrays(field, _joined(NAME, name))
        ]

    def forward(self, raw: tuple[Tensor, ...]) -> Tensor | dict[str, Tensor]:
        following = iter(raw)
        fields = {name: _field(field, self._specs[name], following) for name, field in self._fields.items()}
        return fields if self._is_dict else fields[""]

    def split(self, observations: list[Any]) -> list[np.ndarray]:
        """Returns the arrays [N, ...] of N observations of the environment, in the order of `arrays`."""
        rows = [
            [part for name, field in self._fields.items() for part in _parts(field, _nested(one, name))]
            for one in observations
        ]
        return [
            np.stack([np.asarray(part, array.dtype) for part in parts])
            for array, parts in zip(self.arrays, zip(*rows, strict=True), strict=True)
        ]


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _nested(observation: Any, name: str) -> Any:
    """Returns the field of this name, which may itself contain slashes."""
    if not name:
        return observation
    if name in observation:
        return observation[name]
    heads = [key for key in observation if name.startswith(f"{key}/")]
    return _nested(observation[heads[0]], name.removeprefix(f"{heads[0]}/"))


def _arrays(space: spaces.Space[Any], name: str) -> Iterator[GraphArray]:
    """Yields the inputs that a field of an observation needs."""
    match space:
        case spaces.Tuple():
            for number, part in enumerate(space.spaces):
                yield from _arrays(part, _joined(name, str(number)))
        case spaces.Dict():
            for key, part in space.spaces.items():
                yield from _arrays(part, _joined(name, key))
        case spaces.Box() | spaces.MultiBinary() | spaces.MultiDiscrete():
            yield GraphArray(name, _dtype(space), tuple(space.shape), _meaning(space))
        case spaces.Discrete():
            yield GraphArray(name, _dtype(space), (), _meaning(space))
        case _:
            raise UsageError(
                f"the observation space has {space}, which an exported graph cannot take: leave out --onnx, "
                "--torch-export and --aot-inductor, or wrap the environment with "
                "gymnasium.wrappers.TransformObservation"
            )


def _dtype(space: spaces.Space[Any]) -> str:
    assert space.dtype is not None
    name = space.dtype.name
    if name in ("uint16", "uint32", "uint64"):  # torch has few operations on these
        return "int64"
    return name if hasattr(torch, name) else "float32"


def _meaning(space: spaces.Space[Any]) -> str:
    match space:
        case spaces.Discrete():
            return f"a number from {space.start} to {space.start + space.n - 1}"
        case spaces.MultiDiscrete():
            return f"numbers from {space.start.tolist()} to {(space.start + space.nvec - 1).tolist()}"
        case spaces.MultiBinary():
            return "0 or 1"
    assert space.dtype is not None
    if space.dtype == np.uint8:
        most = int(space.high.max(initial=0)) if isinstance(space, spaces.Box) else 255
        return (
            "pixels from 0 to 255"
            if most == 255 and len(space.shape or ()) > 1
            else f"whole numbers from 0 to {most}"
        )
    return "real numbers" if space.dtype.kind == "f" else "whole numbers"


def _parts(space: spaces.Space[Any], value: Any) -> Iterator[Any]:
    """Yields the parts of one observation in the order of `_arrays`."""
    match space:
        case spaces.Tuple():
            for part, one in zip(space.spaces, value, strict=True):
                yield from _parts(part, one)
        case spaces.Dict():
            for key, part in space.spaces.items():
                yield from _parts(part, value[key])
        case _:
            yield value


def _field(space: spaces.Space[Any], spec: ArraySpec, raw: Iterator[Tensor]) -> Tensor:
    """What the network gets of one field, [N, ...] in the dtype of its spec."""
    if not isinstance(space, spaces.Box):
        return _flat(space, raw)
    x = next(raw)
    if space.shape == ():
        x = x.unsqueeze(-1)
    return x if spec.dtype == "uint8" else x.float()


def _flat(space: spaces.Space[Any], raw: Iterator[Tensor]) -> Tensor:
    """float32 [N, size], as `gymnasium.spaces.flatten` has it."""
    match space:
        case spaces.Tuple():
            return torch.cat([_flat(part, raw) for part in space.spaces], -1)
        case spaces.Dict():
            return torch.cat([_flat(part, raw) for part in space.spaces.values()], -1)
        case spaces.Discrete():
            return _one_hot(next(raw), int(space.start), int(space.n))
        case spaces.MultiDiscrete():
            x_ND = next(raw).flatten(1)
            pairs = zip(space.start.flatten().tolist(), space.nvec.flatten().tolist(), strict=True)
            hot = [_one_hot(x_ND[:, d], start, count) for d, (start, count) in enumerate(pairs)]
            return torch.cat(hot, -1)
    x = next(raw).float()
    return x.reshape(x.shape[0], math.prod(space.shape or ()))


def _one_hot(x_N: Tensor, start: int, count: int) -> Tensor:
    return (x_N.unsqueeze(-1) - start == torch.arange(count)).float()
