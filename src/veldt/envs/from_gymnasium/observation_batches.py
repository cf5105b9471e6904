"""Tells one observation from a batch of them, and takes a batch apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces


def single_observations(space: spaces.Space[Any], observations: Any) -> tuple[list[Any], bool]:
    """Returns single observations of `space`, and whether `observations` is one rather than a batch.

    A batch has a first axis in each field, as a Gymnasium `VectorEnv` returns it: a dictionary of arrays for a Dict, a
    tuple of arrays for a Tuple. A list of single observations is a batch, too.

    Raises:
        ValueError: it is neither, or the batch is empty.
    """
    if isinstance(observations, list) and isinstance(space, spaces.Dict | spaces.Tuple):
        try:
            each = [_count(space, one, "") for one in observations]
        except ValueError:
            if isinstance(space, spaces.Dict):
                raise
            each = [0]  # one observation of a Tuple, or a batch, that is a list of its fields
        if all(count is None for count in each):
            return _not_empty(observations), False
    count = _count(space, observations, "")
    if count is None:
        return [observations], True
    return _not_empty([_nth(space, observations, n) for n in range(count)]), False


def _not_empty(observations: list[Any]) -> list[Any]:
    if not observations:
        raise ValueError("the batch has no observations: give at least one")
    return observations


def _count(space: spaces.Space[Any], value: Any, name: str) -> int | None:
    """Returns N if each field of `value` has a first axis of N; None for a single observation. ValueError otherwise."""
    match space:
        case spaces.Dict():
            if not isinstance(value, Mapping):
                raise ValueError(
                    f"{_called(name)} is {_kind(value)}, and its space is a Dict: give a dictionary with the fields "
                    f"{', '.join(map(str, space.spaces))}"
                )
            if missing := [key for key in space.spaces if key not in value]:
                raise ValueError(f"{_called(name)} lacks the field '{missing[0]}', which its space declares")
            fields = {f"{name}/{key}": (child, value[key]) for key, child in space.spaces.items()}
        case spaces.Tuple():
            parts = len(space.spaces)
            if not isinstance(value, tuple | list | np.ndarray) or len(value) != parts:
                raise ValueError(
                    f"{_called(name)} is {_kind(value)}, and its space is a Tuple of {parts}: give a tuple with one "
                    "entry for each part"
                )
            fields = {f"{name}/{n}": (child, value[n]) for n, child in enumerate(space.spaces)}
        case _:
            return _count_of_leaf(space, value, name)
    counts = {path: _count(child, part, path) for path, (child, part) in fields.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(
            f"'{path.lstrip('/')}' has {'no batch axis' if count is None else count}"
            for path, count in counts.items()
        )
        raise ValueError(f"the fields of {_called(name)} have different numbers of observations: {shown}")
    return next(iter(counts.values()))


def _count_of_leaf(space: spaces.Space[Any], value: Any, name: str) -> int | None:
    declared = space.shape
    if declared is None:  # such as Text, whose values are no arrays
        return None if space.contains(value) or not isinstance(value, tuple | list) else len(value)
    shape = shape_of(value, name, declared)
    if shape == declared:
        return None
    if len(shape) == len(declared) + 1 and shape[1:] == declared:
        return shape[0]
    raise ValueError(f"{wrong_shape(value, name, declared)}, with one more axis in front for a batch")


def shape_of(value: Any, name: str, declared: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of an observation, or of its field `name`; ValueError if it has none, as [[1], [2, 3]]."""
    try:
        return np.shape(value)
    except ValueError:
        raise ValueError(
            f"{_called(name)} has parts of different shapes, but the observation space declares {declared}"
        ) from None


def wrong_shape(value: Any, name: str, declared: tuple[int, ...]) -> str:
    """Returns the message for an observation, or for its field `name`, of another shape than its space declares."""
    # NumPy takes everything that is neither a number nor a sequence, such as None, for a single object of shape ().
    is_array = hasattr(value, "shape") or isinstance(value, complex | float | int) or np.shape(value) != ()
    got = f"has shape {np.shape(value)}" if is_array else f"is of type {type(value).__name__}"
    return f"{_called(name)} {got}, but the observation space declares {declared}"


def _nth(space: spaces.Space[Any], value: Any, n: int) -> Any:
    match space:
        case spaces.Dict():
            return {key: _nth(child, value[key], n) for key, child in space.spaces.items()}
        case spaces.Tuple():
            return tuple(_nth(child, value[part], n) for part, child in enumerate(space.spaces))
        case _:
            return value[n]


def _called(name: str) -> str:
    return f"the observation{field_named(name.lstrip('/'))}"


def field_named(name: str) -> str:
    """Returns " 'NAME'" for a field of an observation; "" for an observation without fields."""
    return f" '{name}'" if name else ""


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple | list) else "")
