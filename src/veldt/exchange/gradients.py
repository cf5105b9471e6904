"""The gradient edge: where a learner's gradient goes before it becomes an update."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed
from torch import Tensor

from veldt.errors import UsageError

# For all learners to bring their gradients: the first may compile a network before.
_DEADLINE = timedelta(minutes=5)


class GradientEdge(Protocol):
    """Learners compute a gradient locally, pass it through this edge, and all apply the same result."""

    def reduce(self, gradient_P: Tensor) -> None:
        """Replaces the local gradient, float32 [P], by the mean over all learners, in place."""

    def largest(self, value: float) -> float:
        """Of the values that all learners give, once each."""

    def agree(self, digests: Mapping[str, int]) -> None:
        """UsageError if another learner has another int64 by one of these names: the same for all, or nothing fits."""


class OneLearner:
    """The edge of a single learner: its gradient is the mean already."""

    def reduce(self, gradient_P: Tensor) -> None:
        pass

    def largest(self, value: float) -> float:
        return value

    def agree(self, digests: Mapping[str, int]) -> None:
        pass


class AllReduce:
    """The mean over `count` learners, by NCCL where they have accelerators, else by Gloo.

    Args:
        rank: which of them this is.
        meeting: a file that is not there yet, by which they find each other; all can see it.
        device: where gradients are.

    Raises:
        RuntimeError: from `reduce` too, when another learner is gone or does not come in time.
    """

    def __init__(self, rank: int, count: int, meeting: Path, device: torch.device) -> None:
        torch.distributed.init_process_group(
            "gloo" if device.type == "cpu" else "nccl",
            init_method=f"file://{meeting.absolute()}",
            rank=rank,
            world_size=count,
            timeout=_DEADLINE,
        )
        self._rank, self._count, self._device = rank, count, device

    def reduce(self, gradient_P: Tensor) -> None:
        torch.distributed.all_reduce(gradient_P)
        gradient_P /= self._count

    def largest(self, value: float) -> float:
        value_1 = torch.tensor([value], dtype=torch.float64, device=self._device)
        torch.distributed.all_reduce(value_1, torch.distributed.ReduceOp.MAX)
        return float(value_1)

    def agree(self, digests: Mapping[str, int]) -> None:
        own_D = torch.tensor(list(digests.values()), dtype=torch.int64, device=self._device)
        all_LD = [torch.empty_like(own_D) for _ in range(self._count)]
        torch.distributed.all_gather(all_LD, own_D)
        for rank, theirs_D in enumerate(all_LD):
            for name, own, theirs in zip(digests, own_D.tolist(), theirs_D.tolist(), strict=True):
                if own != theirs:
                    raise UsageError(
                        f"learners {self._rank} and {rank} differ in their {name}: all of them must have the same, by "
                        "the same versions of veldt and torch on all nodes"
                    )
