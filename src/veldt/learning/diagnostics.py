"""Opt-in metrics of an update: norms of each layer, and how alike the gradients of a batch and of its half are.

They only read what an update computes, so that they change no bit of training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from veldt.algorithms.rollout import Batch
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.networks.flat import FlatParameters

COSINE = "train/gradient_cosine"


class Diagnostics:
    """Measures the updates of one learner.

    Args:
        norms: log `norms/weights`, `norms/gradient` and `norms/step`, of all parameters and of each (Stooke & Abbeel
            2018, appendix D).
        saturation: log `train/gradient_cosine` (section 5.5).
    """

    def __init__(self, parameters: FlatParameters, norms: bool = False, saturation: bool = False) -> None:
        self._parameters, self._norms, self._saturation = parameters, norms, saturation
        self._half_P: Tensor | None = None
        self._before_P: Tensor | None = None

    def before_backward(self, batch: Any, backward: Callable[[Any], None]) -> None:
        """Keeps the gradient of half of the batch; `backward` computes that of what it gets."""
        if not self._saturation or (half := half_of(batch)) is None:
            return
        gradient_P, buffers = self._parameters.gradient, self._parameters.buffers()
        # Such as the running mean of a user's batch normalisation.
        before = [buffer.clone() for buffer in buffers]
        with torch.random.fork_rng(devices=[gradient_P.device] if gradient_P.is_cuda else []):
            backward(half)
        self._half_P = gradient_P.clone()
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)

    def after_backward(self) -> dict[str, Tensor]:
        """Returns the metrics of the gradient, before it is clipped."""
        gradient_P, metrics = self._parameters.gradient, {}
        if self._half_P is not None:
            metrics[COSINE] = torch.cosine_similarity(gradient_P, self._half_P, dim=0)
            self._half_P = None
        if self._norms:
            metrics |= self._norms_of("gradient", gradient_P)
            self._before_P = self._parameters.fp32_params.detach().clone()
        return metrics

    def after_update(self) -> dict[str, Tensor]:
        """Returns the metrics of the parameters and of their change."""
        if self._before_P is None:
            return {}
        after_P = self._parameters.fp32_params.detach()
        metrics = self._norms_of("weights", after_P) | self._norms_of("step", after_P - self._before_P)
        self._before_P = None
        return metrics

    def _norms_of(self, quantity: str, vector_P: Tensor) -> dict[str, Tensor]:
        parts = self._parameters.split(vector_P)
        norms = {f"norms/{quantity}/{name}": torch.linalg.vector_norm(part) for name, part in parts.items()}
        return {f"norms/{quantity}": torch.linalg.vector_norm(vector_P), **norms}


def half_of(batch: Any) -> Any:
    """Returns half of a batch's rows; None where a batch cannot be divided."""
    if isinstance(batch, Batch):
        if batch.recurrent is not None:
            return None
        if batch.rows is not None:
            return next(iter(batch.split(2)))
        # Every second row of all T B rows, in whose order envs alternate.
        return batch.select(torch.arange(0, len(batch.action), 2, device=batch.action.device))
    if isinstance(batch, QLearningBatch | Transitions):
        rows = len(batch.action)
        fields = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
        return type(batch)(**{name: _first_half(value, rows, name) for name, value in fields.items()})
    return None


def _first_half(value: Any, rows: int, name: str) -> Any:
    if isinstance(value, dict):
        return {key: part[: rows // 2] for key, part in value.items()}
    # The noise of noisy layers is for all rows together.
    return value if name == "noise" or len(value) != rows else value[: rows // 2]
