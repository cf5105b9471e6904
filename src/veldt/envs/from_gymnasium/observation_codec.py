"""Writes the observations of any Gymnasium space into plain arrays, one for each field, and checks them."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from veldt.envs.from_gymnasium.observation_batches import (
    field_named,
    shape_of,
    single_observations,
    wrong_shape,
)
from veldt.envs.spec import ArraySpec
from veldt.errors import UsageError

# NumPy's remark on a float64 beyond float32: the stepper finds the infinite number, and names env and step.
warnings.filterwarnings("ignore", "overflow encountered in cast", RuntimeWarning, re.escape(__name__))

_UINT8 = np.dtype(np.uint8)  # a type in its place would be converted at each comparison


class ObservationCodec:
    """Writes an environment's observations into the arrays of its spec.

    Box leaves keep their shape (float64 becomes float32, a scalar an array of one number). Discrete, MultiBinary,
    MultiDiscrete and Tuple leaves are flattened as Gymnasium flattens them (one-hot for Discrete). Dict leaves are
    named by path, `camera/left`.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        if not isinstance(space, spaces.Space):
            raise UsageError(
                f"the environment's observation_space is {space!r}: set it to a space of Gymnasium, such as "
                "gymnasium.spaces.Box(-1, 1, (4,))"
            )
        self._space = space
        self._leaves: dict[str, tuple[tuple[str, ...], spaces.Space[Any]]] = {}
        self._collect(space, ())
        if not self._leaves:
            raise UsageError(
                f"the observation space {space} is empty: give it at least one field, for a policy to act on"
            )
        self.spec = {name: self._array_spec(leaf) for name, (_, leaf) in self._leaves.items()}
        for name, field in self.spec.items():
            if not math.prod(field.shape):
                raise UsageError(
                    f"the observation space{field_named(name)}, {self._leaves[name][1]}, has no number in it "
                    f"(shape {field.shape}): give it at least one, or leave it out with "
                    "gymnasium.wrappers.TransformObservation"
                )
        leaves = list(self._leaves.values())
        path, leaf = leaves[0]
        # The common case of one Box has a fast path, because every step of a small environment uses it.
        self._plain = len(leaves) == 1 and not path and isinstance(leaf, spaces.Box)
        self._shapes = [
            leaf.shape if isinstance(leaf, spaces.Box) else spec.shape
            for spec, (_, leaf) in zip(self.spec.values(), leaves, strict=True)
        ]

    def _collect(self, space: spaces.Space[Any], path: tuple[str, ...]) -> None:
        if isinstance(space, spaces.Dict):
            for key, child in space.spaces.items():
                if not isinstance(key, str) or not key:
                    raise UsageError(
                        f"a field of the observation space is named {key!r}: names must be strings and not empty; "
                        "rename it with gymnasium.wrappers.TransformObservation"
                    )
                self._collect(child, (*path, key))
        elif isinstance(space, spaces.Tuple) and not space.spaces:
            raise UsageError(
                f"the observation space{field_named('/'.join(path))} is an empty Tuple: give it at least one part, or "
                "leave it out"
            )
        elif isinstance(space, spaces.Box) or space.is_np_flattenable:
            name = "/".join(path)
            if name in self._leaves:
                raise UsageError(
                    f"two fields of the observation space are named '{name}', once nested and once with a slash: "
                    "rename one with gymnasium.wrappers.TransformObservation"
                )
            self._leaves[name] = (path, space)
        else:
            raise UsageError(
                f"the observation space{field_named('/'.join(path))}, {space}, is not supported: allowed are Box, "
                "Discrete, MultiDiscrete, MultiBinary, Text, OneOf, and Tuple and Dict of these; wrap the environment "
                "with gymnasium.wrappers.TransformObservation"
            )

    @staticmethod
    def _array_spec(leaf: spaces.Space[Any]) -> ArraySpec:
        if not isinstance(leaf, spaces.Box):
            flat = spaces.flatten_space(leaf)
            assert flat.shape is not None
            return ArraySpec(flat.shape, "float32", is_box=False)
        dtype = "uint8" if leaf.dtype == np.uint8 else "float32"
        return ArraySpec(leaf.shape or (1,), dtype, largest=_largest(leaf))

    @property
    def fields(self) -> dict[str, spaces.Space[Any]]:
        """The space of each field by its name in `spec`."""
        return {name: leaf for name, (_, leaf) in self._leaves.items()}

    @property
    def takes_tuples(self) -> bool:
        """Whether an observation is itself a tuple."""
        return isinstance(self._space, spaces.Tuple)

    def encoded(self, observation: Any) -> tuple[list[np.ndarray], bool]:
        """Returns the arrays [N, ...] by field of N observations, [1, ...] of one, and whether it is one.

        Errors as in `single_observations` and `write`.
        """
        each, is_single = single_observations(self._space, observation)
        rows = [np.zeros((len(each), *field.shape), field.dtype) for field in self.spec.values()]
        for index, one in enumerate(each):
            self.write(one, rows, index)
        return rows, is_single

    def write(self, observation: Any, rows: list[np.ndarray], index: int) -> None:
        """Writes one observation to `rows[field][index]`; ValueError if it does not have the declared shape."""
        if self._plain:
            shape = self._shapes[0]
            # `observation.shape` is three times as fast as `np.shape(observation)`.
            if getattr(observation, "shape", None) != shape and shape_of(observation, "", shape) != shape:
                raise ValueError(wrong_shape(observation, "", shape))
            _store(observation, rows[0], index, "")
            return
        for row, shape, (path, leaf) in zip(rows, self._shapes, self._leaves.values(), strict=True):
            value = observation
            for depth, key in enumerate(path):
                try:
                    value = value[key]
                except (IndexError, KeyError, TypeError):
                    raise ValueError(_field_message(path[:depth], value, key)) from None
            if not isinstance(leaf, spaces.Box):
                try:
                    _check_values(leaf, value)
                    value = spaces.flatten(leaf, value)
                except (IndexError, KeyError, TypeError, ValueError, AssertionError):
                    raise ValueError(
                        f"the observation{field_named('/'.join(path))} is {value!r}, which is not in its space, {leaf}"
                    ) from None
            name = "/".join(path)
            if shape_of(value, name, shape) != shape:
                raise ValueError(wrong_shape(value, name, shape))
            _store(value, row, index, name)


def _largest(space: spaces.Box) -> float:
    """The largest absolute number within the bounds; infinite if there is none."""
    largest = np.abs((space.low.astype(np.float64), space.high.astype(np.float64))).max(initial=0.0)
    # Environments write the limits of a float's type for no bound.
    return float(largest) if space.is_bounded() and largest < np.finfo(np.float32).max else math.inf


def _store(value: Any, row: np.ndarray, index: int, name: str) -> None:
    dtype = getattr(value, "dtype", None)
    try:
        # NumPy would drop the imaginary part of a complex number, and store a date as its number of units.
        if dtype is not row.dtype and np.asarray(value).dtype.kind in "cmM":
            raise TypeError
        fits = row.dtype != _UINT8 or dtype == _UINT8 or _are_bytes(value)
        if fits:
            row[index] = value
    except (OverflowError, TypeError, ValueError):
        raise ValueError(_type_message(name, value, row)) from None
    if not fits:
        raise ValueError(
            f"the observation{field_named(name)} has fractions, or numbers outside of 0 to 255, and its space is of "
            "uint8: return whole numbers, or declare a space of float32"
        )


def _check_values(space: spaces.Space[Any], value: Any) -> None:
    """Raises ValueError or TypeError for discrete values out of range: Gymnasium would encode -1 as the last state."""
    match space:
        case spaces.Discrete():
            if not 0 <= value - space.start < space.n:
                raise ValueError("out of range")
        case spaces.MultiDiscrete():
            if np.shape(value) != space.shape:
                raise ValueError("another shape")
            offset = np.asarray(value) - space.start
            if (offset < 0).any() or (offset >= space.nvec).any():
                raise ValueError("out of range")
        case spaces.MultiBinary():
            if np.shape(value) != space.shape or not np.isin(value, (0, 1)).all():
                raise ValueError("another shape, or neither 0 nor 1")
        case spaces.Tuple():
            for child, part in zip(space.spaces, value, strict=True):
                _check_values(child, part)
        case spaces.Dict():
            for key, child in space.spaces.items():
                _check_values(child, value[key])


def _are_bytes(value: Any) -> bool:
    """Whether all numbers are of uint8: NumPy would store 256 and 0.5 as 0."""
    numbers = np.asarray(value)
    return bool(((numbers >= 0) & (numbers <= 255) & (numbers == np.floor(numbers))).all())


def _type_message(name: str, got: Any, row: np.ndarray) -> str:
    dtype = np.asarray(got).dtype
    return f"the observation{field_named(name)} has dtype {dtype}, which does not convert to {row.dtype}"


def _field_message(path: tuple[str, ...], got: Any, key: str) -> str:
    subject = f"the observation{field_named('/'.join(path))}"
    if isinstance(got, Mapping):
        return f"{subject} lacks the field '{key}', which its space declares"
    return f"{subject} is of type {type(got).__name__}, and its space is a Dict: return a dictionary"
