"""Observation and action schemas that the tests build networks for, and observations of them."""

from __future__ import annotations

import torch
from torch import Tensor

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec

DISCRETE = ActionSpec("discrete", sizes=(6,), start=(0,))
MULTI = ActionSpec("multi", sizes=(3, 2), start=(0, 0), env_shape=(2,))
BOX = ActionSpec("box", low=(-1.0,) * 3, high=(1.0,) * 3, env_shape=(3,), env_dtype="float32")

VECTOR = ArraySpec((5,), "float32")
ATARI = ArraySpec((104, 80), "uint8", stack=4)
COLOUR = ArraySpec((64, 48, 3), "uint8")
TINY = ArraySpec((6, 10, 10), "uint8")


def spec(action: ActionSpec = DISCRETE, **fields: ArraySpec) -> EnvSpec:
    return EnvSpec(fields, action)


def single(field: ArraySpec, action: ActionSpec = DISCRETE) -> EnvSpec:
    return EnvSpec({"": field}, action)


def observations(field: ArraySpec, rows: int) -> Tensor:
    """The same each time, as a network gets them."""
    generator = torch.Generator().manual_seed(0)
    if field.dtype == "uint8":
        return torch.randint(0, 256, (rows, *field.network_shape), dtype=torch.uint8, generator=generator)
    return torch.randn(rows, *field.shape, generator=generator)
