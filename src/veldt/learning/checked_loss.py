"""Checks what an algorithm's `loss` or `losses` returns: an algorithm of the user's own may return anything."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from torch import Tensor

from veldt.algorithms.base import Algorithm, Loss
from veldt.errors import PluginError, UsageError, described, traceback_of


def checked_loss(returned: Any, algorithm: Algorithm) -> Loss:
    """Returns the loss that the algorithm has returned, without synchronising with the device.

    Raises:
        UsageError: it is no `Loss`, not a single number, or depends on no parameter; or a metric is not a number,
            or has no name.
    """
    if not isinstance(returned, Loss):
        raise _wrong(
            algorithm, f"returned {_described(returned)}", "return veldt.algorithms.base.Loss(total, metrics)"
        )
    total, metrics, priority = returned.total, returned.metrics, returned.priority
    if not isinstance(total, Tensor) or total.ndim:
        kind = f"type {type(total).__name__}"
        got = f"the shape {list(total.shape)}" if isinstance(total, Tensor) else kind
        raise _wrong(algorithm, f"returned a loss of {got}", "it must be a tensor [], such as a mean")
    if not total.is_floating_point():
        kind = str(total.dtype).removeprefix("torch.")
        raise _wrong(algorithm, f"returned a loss of {kind}", "it must be of real numbers, such as float32")
    if returned.by_group is None and not total.requires_grad:
        raise _wrong(
            algorithm,
            "returned a loss that depends on no parameter",
            "compute it from `forward`, without torch.no_grad() and detach()",
        )
    if not isinstance(metrics, Mapping):
        raise _wrong(algorithm, f"returned metrics of type {type(metrics).__name__}", "return a dictionary")
    for name, value in metrics.items():
        if not (isinstance(name, str) and name):
            raise _wrong(
                algorithm, f"returned a metric named {name!r}", "its name must be a string, not empty"
            )
        if not _is_number(value):
            got = f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise _wrong(algorithm, f"returned the metric {name!r} as {got}", "it must be a number")
    if priority is not None and not (isinstance(priority, Tensor) and priority.ndim == 1):
        raise _wrong(
            algorithm,
            f"returned priorities as {_described(priority)}",
            "return a tensor [N], one for each row",
        )
    if any(isinstance(value, Tensor) and value.requires_grad for value in metrics.values()):
        plain = {
            name: value.detach() if isinstance(value, Tensor) else value for name, value in metrics.items()
        }
        return returned._replace(metrics=plain)
    return returned


def gradient_failed(error: RuntimeError, algorithm: Algorithm) -> PluginError:
    """Returns the error for what torch raises when it computes the gradient: it names none of the user's code."""
    what = f"{algorithm.name}: the gradient of the loss of {type(algorithm).__name__} cannot be computed"
    return PluginError(
        f"{what} ({described(error)}): in the loss, and in a network of your own, call no backward(), and change no "
        "tensor in place that an earlier operation needs",
        details=traceback_of(error),
    )


def required_priority(priority: Tensor | None, rows: int, algorithm: Algorithm, replay: str) -> Tensor:
    """Returns the new priorities, float32 [N], for a sampling strategy. UsageError if there is not one for each row.

    The algorithm may return them with their gradients, and in bfloat16.
    """
    if priority is None:
        raise _wrong(
            algorithm,
            f"returned no priorities, and --replay is {replay}",
            "return a tensor [N], one for each row, as Loss(total, metrics, priority), or take --replay uniform",
        )
    if len(priority) != rows:
        raise _wrong(
            algorithm,
            f"returned {len(priority)} priorities for {rows} rows",
            "return a tensor [N], one for each row",
        )
    return priority.detach().float()


def _is_number(value: Any) -> bool:
    return value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, Real)


def _wrong(algorithm: Algorithm, what: str, mend: str) -> UsageError:
    return UsageError(f"{algorithm.name}: the loss of {type(algorithm).__name__} {what}: {mend}")


def _described(value: Any) -> str:
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
