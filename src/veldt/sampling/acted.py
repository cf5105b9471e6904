"""Checks what an algorithm's `act` returns: an algorithm of the user's own may return anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from veldt.algorithms.base import Algorithm
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError, diverged


def checked_act(
    returned: Any, like: np.ndarray, space: ActionSpec, algorithm: Algorithm
) -> tuple[np.ndarray, Mapping[str, Tensor]]:
    """Returns the actions and extras that `act`, or `act_with_values`, has returned for the N rows of `like`.

    Args:
        like: the place of the actions, [N, ...], whose shape and kind of numbers they must have.
        space: the actions that there are.

    Raises:
        UsageError: there are no actions and extras, or not one for each row, or an action that the space does not have.
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
    if space.kind == "box":
        if chosen.dtype.kind == "f" and not np.isfinite(chosen).all():
            raise diverged("the policy's actions are not finite", lower="--learning-rate")
    # As unsigned numbers, negative ones are large: one comparison, because small networks act in a few of its times.
    elif (is_outside := chosen.view(f"u{chosen.itemsize}") >= space.num_choices).any():
        wrong = chosen[is_outside.reshape(rows, -1).any(1)][0]
        sizes = ", ".join(map(str, space.sizes))
        below = f"{sizes}" if space.kind == "discrete" else f"{sizes}, one for each dimension"
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.act returned the action {wrong.tolist()}: actions are whole "
            f"numbers from 0 on, below {below}"
        )
    return chosen, extras


def num_noise(algorithm: Algorithm, network: nn.Module) -> int:
    """Returns what `action_noise` returns. UsageError if that is no number of numbers."""
    width = algorithm.action_noise(network)
    if not isinstance(width, int) or width < 0:
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.action_noise returned {width!r}: it must be a whole number, "
            "how many uniform numbers an action needs, 0 for none"
        )
    return width


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
