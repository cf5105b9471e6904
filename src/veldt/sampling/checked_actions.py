"""Checks what an algorithm's `act` and its like return: an algorithm of the user's own may return anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from veldt.algorithms.base import Algorithm
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError, diverged


def checked_act(
    returned: Any, rows: int, space: ActionSpec, algorithm: Algorithm
) -> tuple[np.ndarray, Mapping[str, Tensor]]:
    """Returns the actions and extras that `act`, or `act_with_values`, has returned for so many rows.

    Raises:
        UsageError: there are no actions and extras, or not one for each row, or an action that the space does not have.
        VeldtError: the actions are not finite.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise _wrong(algorithm, "act", _described(returned), rows, space)
    action, extras = returned
    chosen = _checked_actions(action, "act", rows, space, algorithm)
    if not isinstance(extras, Mapping):
        raise _wrong(algorithm, "act", f"extras of {_described(extras)}", rows, space)
    for name, values in extras.items():
        if not has_rows(values, rows):
            raise _wrong(algorithm, "act", f"the extra {name!r} of {_described(values)}", rows, space)
    return chosen, extras


def has_rows(value: Any, rows: int) -> bool:
    """Whether it is a tensor [N, ...] with so many rows."""
    return isinstance(value, Tensor) and value.ndim > 0 and len(value) == rows


def checked_best(returned: Any, rows: int, space: ActionSpec, algorithm: Algorithm) -> np.ndarray:
    """Returns the actions that `best_action` has returned for so many rows. Errors as in `checked_act`."""
    return _checked_actions(returned, "best_action", rows, space, algorithm)


def _checked_actions(
    action: Any, method: str, rows: int, space: ActionSpec, algorithm: Algorithm
) -> np.ndarray:
    if (
        not isinstance(action, Tensor)
        or action.shape != (rows, *space.shape)
        or (action.dtype.is_floating_point and space.kind != "box")
    ):
        raise _wrong(algorithm, method, f"actions of {_described(action)}", rows, space)
    # Real numbers as they are stored: numpy does not have all of torch's types, such as that of `--precision bf16`.
    chosen: np.ndarray = (action.float() if space.kind == "box" else action).cpu().numpy()
    if space.kind == "box":
        if not np.isfinite(chosen).all():
            raise diverged("the policy's actions are not finite", lower="--learning-rate")
    # As unsigned numbers, negative ones are large: one comparison, because small networks act in a few of its times.
    elif (is_outside := chosen.view(f"u{chosen.itemsize}") >= space.num_choices).any():
        wrong = chosen[is_outside.reshape(rows, -1).any(1)][0]
        sizes = ", ".join(map(str, space.sizes))
        below = sizes if space.kind == "discrete" else f"{sizes}, one for each dimension"
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.{method} returned the action {wrong.tolist()}: actions are "
            f"whole numbers from 0 on, below {below}"
        )
    return chosen


def num_noise(algorithm: Algorithm, network: nn.Module, method: str = "action_noise") -> int:
    """Returns what the method returns about noise. UsageError if that is not a whole number, 0 or more."""
    width = getattr(algorithm, method)(network)
    if not isinstance(width, int | np.integer) or width < 0:
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.{method} returned {width!r}: it must be a whole number, how "
            "many random numbers are needed, 0 for none"
        )
    return int(width)


def checked_noise(returned: Any, rows: tuple[int, int], algorithm: Algorithm) -> Tensor:
    """Returns what `prepare_noise` has returned for `rows` [T, B]. UsageError if that is not [T, B, ...]."""
    if not isinstance(returned, Tensor) or returned.shape[:2] != rows:
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.prepare_noise returned {_described(returned)} for uniform "
            f"numbers {[*rows, 'K']}: it must return a tensor whose shape begins with the same numbers"
        )
    return returned


def _wrong(algorithm: Algorithm, method: str, what: str, rows: int, space: ActionSpec) -> UsageError:
    kind = "real numbers" if space.kind == "box" else "whole numbers"
    actions = f"a tensor {[rows, *space.shape]} of {kind}"
    needed = f"actions, {actions}, and a dictionary of tensors [{rows}, ...]" if method == "act" else actions
    return UsageError(
        f"{algorithm.name}: {type(algorithm).__name__}.{method} returned {what} for {rows} observations: it must "
        f"return {needed}"
    )


def _described(value: Any) -> str:
    """The type of a value, and the shape of a tensor, in a few words."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"type {type(value).__name__}"
