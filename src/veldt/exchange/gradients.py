"""The gradient edge: where a learner's gradient goes before it becomes an update."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class GradientEdge(Protocol):
    """Learners compute a gradient locally, pass it through this edge, and all apply the same result."""

    def reduce(self, gradient_P: Tensor) -> None:
        """Replaces the local gradient, float32 [P], by the mean over all learners, in place."""


class OneLearner:
    """The edge of a single learner: its gradient is the mean already."""

    def reduce(self, gradient_P: Tensor) -> None:
        pass
