"""Observation and action schemas that the tests build networks for."""

from __future__ import annotations

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
