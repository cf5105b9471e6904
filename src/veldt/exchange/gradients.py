"""The gradient edge: where a learner's gradient goes before it becomes an update."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Protocol

import torch.distributed
from torch import Tensor

_DEADLINE = timedelta(
    minutes=5
)  # for all learners to bring their gradients: the first may compile a network before


class GradientEdge(Protocol):
    """Learners compute a gradient locally, pass it through this edge, and all apply the same result."""

    def reduce(self, gradient_P: Tensor) -> None:
        """Replaces the local gradient, float32 [P], by the mean over all learners, in place."""


class OneLearner:
    """The edge of a single learner: its gradient is the mean already."""

    def reduce(self, gradient_P: Tensor) -> None:
        pass


class AllReduce:
    """The mean over `count` learners, by NCCL where they have accelerators, else by Gloo.

    Args:
        rank: which of them this is.
        meeting: a file that is not there yet, by which they find each other; all can see it.
        on_accelerator: whether gradients are on one.

    Raises:
        RuntimeError: from `reduce` too, when another learner is gone or does not come in time.
    """

    def __init__(self, rank: int, count: int, meeting: Path, on_accelerator: bool) -> None:
        torch.distributed.init_process_group(
            "nccl" if on_accelerator else "gloo",
            init_method=f"file://{meeting.absolute()}",
            rank=rank,
            world_size=count,
            timeout=_DEADLINE,
        )
        self._count = count

    def reduce(self, gradient_P: Tensor) -> None:
        torch.distributed.all_reduce(gradient_P)
        gradient_P /= self._count
