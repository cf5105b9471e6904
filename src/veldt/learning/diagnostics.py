"""Opt-in metrics of an update: norms of each layer, and how alike the gradients of a batch and of its half are.

They only read what an update computes, so that they change no bit of training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from veldt.errors import UsageError
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

    def before_backward(self, batch: Any, backward: Callable[[Any], object]) -> None:
        """Keeps the gradient of half of the batch; `backward` computes that of what it gets.

        Raises UsageError for a batch of the user's own that cannot say what its half is.
        """
        if not self._saturation:
            return
        if not hasattr(batch, "half_of_rows"):
            raise UsageError(
                f"--log-saturation is on, and the batches of this algorithm are of the type {type(batch).__name__}, "
                "which has no method half_of_rows: give it one that returns a batch of half of the rows, or None where "
                "there is only one; or leave --log-saturation out"
            )
        if (half := batch.half_of_rows()) is None:
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
        """Returns the metrics of the gradient, that of all learners of the batch, before it is clipped."""
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
