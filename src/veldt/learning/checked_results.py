"""Checks what other methods of an algorithm than `act` and `loss` return: one of the user's own may return anything."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from veldt.algorithms.base import Algorithm
from veldt.errors import UsageError
from veldt.sampling.checked_actions import has_rows


def checked_minibatches(returned: Any, algorithm: Algorithm) -> Iterator[Any]:
    """Yields the batches of `minibatches`, which computes them without gradient.

    Raises UsageError if the result cannot be iterated over, and if it has no batch, or None in place of one: the run
    would go on without learning.
    """
    if isinstance(returned, Tensor | Mapping) or not isinstance(returned, Iterable):
        raise _wrong(
            algorithm, "minibatches", returned, "yield the batch of each update, or return a list of them"
        )
    batch = None
    for batch in _without_gradient(returned):
        if batch is None:
            break
        yield batch
    if batch is None:
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.minibatches yielded no batch: it must yield the batch of "
            "each update, and at least one"
        )


def _without_gradient(batches: Iterable[Any]) -> Iterator[Any]:
    """Yields the same, computed without gradient; what is done with a batch meanwhile keeps its own mode."""
    iterator = iter(batches)
    while True:
        with torch.no_grad():
            try:
                batch = next(iterator)
            except StopIteration:
                return
        yield batch


def checked_exploration(returned: Any, algorithm: Algorithm) -> Mapping[str, float]:
    """Returns the metrics of `exploration`. UsageError if they are no numbers by name."""
    if not isinstance(returned, Mapping) or not all(isinstance(one, Real) for one in returned.values()):
        raise _wrong(algorithm, "exploration", returned, "return a dictionary of numbers, {} for none")
    return returned


def checked_scored_envs(returned: Any, algorithm: Algorithm) -> Collection[int]:
    """Returns the envs of `scored_envs`. UsageError if they are no numbers of envs."""
    if not isinstance(returned, Collection) or not all(isinstance(one, int) for one in returned):
        raise _wrong(
            algorithm, "scored_envs", returned, "return the numbers of envs, such as range(num_envs)"
        )
    return returned


def checked_estimate(returned: Any, method: str, rows: int, algorithm: Algorithm) -> Any:
    """Returns what `value` (a tensor [N]), `action_values` ([N, A]) or `policy` (tensors [N, ...] by name) returned.

    Raises UsageError if it is something else: it would have the shape of several observations, or of none.
    """
    if method == "policy":
        if not isinstance(returned, Mapping) or not all(has_rows(one, rows) for one in returned.values()):
            raise _wrong(algorithm, method, returned, f"return a dictionary of tensors [{rows}, ...]")
        return returned
    axes, shape = (1, f"[{rows}]") if method == "value" else (2, f"[{rows}, actions]")
    if not has_rows(returned, rows) or returned.ndim != axes:
        raise _wrong(algorithm, method, returned, f"return a tensor {shape}")
    return returned


def check_taken_and_best(extras: Mapping[str, Any], algorithm: Algorithm) -> None:
    """Raises UsageError if the extras of `act_with_values` lack what `first_priorities` gets."""
    if missing := [name for name in ("taken", "best") if name not in extras]:
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.act_with_values returned the extras {', '.join(extras)}, "
            f"without {missing[0]!r}: it must return both, the network's output for the action taken and for the best "
            "one, or no extras"
        )


def checked_first_priorities(returned: Any, rows: int, algorithm: Algorithm) -> Tensor:
    """Returns the priorities [N] of new steps. UsageError if there is not one for each."""
    if not has_rows(returned, rows) or returned.ndim != 1:
        raise _wrong(algorithm, "first_priorities", returned, f"return a tensor [{rows}], one for each row")
    priority: Tensor = returned.float()
    return priority


def _wrong(algorithm: Algorithm, method: str, returned: Any, mend: str) -> UsageError:
    return UsageError(
        f"{algorithm.name}: {type(algorithm).__name__}.{method} returned {_described(returned)}: it must {mend}"
    )


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)}"
    if isinstance(value, Mapping):
        return f"a dictionary of {', '.join(f'{name!r}: {_described(one)}' for name, one in value.items())}"
    return repr(value)
