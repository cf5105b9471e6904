"""The fields and bytes of a row of the replay buffer, and the rows that an env has. Without numba, for early checks."""

from __future__ import annotations

import math

import numpy as np

from veldt.envs.spec import EnvSpec

STEP_FIELDS = {
    "reward": "float32",
    "terminated": "bool",
    "truncated": "bool",
    "life_lost": "bool",
    "version": "int32",
}
ROW_FIELDS = {"episode_step": "int32", "valid": "bool"}
FIELDS = ("action", *STEP_FIELDS, *ROW_FIELDS)  # all fields of a row besides its observation


def ring_rows(spec: EnvSpec, share: int, steps: int) -> int:
    """Returns R: `share` sampleable rows per env, the frames before the oldest, and `steps` rows after the newest (the
    row of the continuing episode is among these).
    """
    return share + steps + spec.history


def row_bytes(spec: EnvSpec) -> int:
    """Returns the bytes of one row."""
    arrays = [(field.shape, field.dtype) for field in spec.observation.values()]
    arrays.append((spec.action.shape, spec.action.dtype))
    arrays += [((), dtype) for dtype in (*STEP_FIELDS.values(), *ROW_FIELDS.values())]
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in arrays)
