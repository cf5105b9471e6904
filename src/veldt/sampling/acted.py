"""Checks what an algorithm's `act` returns: an algorithm of the user's own may return anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from veldt.algorithms.base import Algorithm
from veldt.errors import UsageError, diverged


def checked_act(
    returned: Any, like: np.ndarray, algorithm: Algorithm
) -> tuple[np.ndarray, Mapping[str, Tensor]]:
    """Returns the actions and extras that `act`, or `act_with_values`, has returned for the N rows of `like`.

    Args:
        like: the place of the actions, [N, ...], whose shape and kind of numbers they must have.

    Raises:
        UsageError: there are no actions and extras, or not one for each row.
        VeldtError: the actions are not finite.
    """
    rows = len(like)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise _wrong(algorithm, _described(returned), like)
    action, extras = returned
    if (
        not isinstance(action, Tensor)
        or action.shape != like.shape
        or (action.dtype.is_floating_point and like.dtype.kind != "f")
    ):
        raise _wrong(algorithm, f"actions of {_described(action)}", like)
    if not isinstance(extras, Mapping):
        raise _wrong(algorithm, f"extras of {_described(extras)}", like)
    for name, values in extras.items():
        if not isinstance(values, Tensor) or not values.ndim or len(values) != rows:
            raise _wrong(algorithm, f"the extra {name!r} of {_described(values)}", like)
    chosen = action.cpu().numpy()
    if chosen.dtype.kind == "f" and not np.isfinite(chosen).all():
        raise diverged("the policy's actions are not finite", lower="--learning-rate")
    return chosen, extras


def checked_noise(returned: Any, rows: tuple[int, int], algorithm: Algorithm) -> Tensor:
    """Returns what `prepare_noise` has returned for `rows` [T, B]. UsageError if that is not [T, B, ...]."""
    if not isinstance(returned, Tensor) or returned.shape[:2] != rows:
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.prepare_noise returned {_described(returned)} for uniform "
            f"numbers {[*rows, 'K']}: it must return a tensor whose shape begins with the same numbers"
        )
    return returned


def _wrong(algorithm: Algorithm, what: str, like: np.ndarray) -> UsageError:
    kind = "real numbers" if like.dtype.kind == "f" else "whole numbers"
    return UsageError(
        f"{algorithm.name}: {type(algorithm).__name__}.act returned {what} for {len(like)} observations: it must "
        f"return actions, a tensor {list(like.shape)} of {kind}, and a dictionary of tensors [{len(like)}, ...]"
    )


def _described(value: Any) -> str:
    """The type of a value, and the shape of a tensor, in a few words."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"type {type(value).__name__}"
