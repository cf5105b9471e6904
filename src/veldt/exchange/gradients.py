"""The gradient edge: all-reduces the gradients of several learners before the update."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed
from torch import Tensor

from veldt.errors import PeerLostError, UsageError, first_line
from veldt.runtime.devices import synchronise

# For all learners to call an all-reduce: the first call may come after a network is compiled.
_DEADLINE = timedelta(minutes=5)
_HEARTBEAT_S = 1.0


class GradientEdge(Protocol):
    """Learners compute a gradient locally, pass it through this edge, and all apply the same result."""

    def reduce(self, gradient_P: Tensor, rows: Tensor | None = None) -> None:
        """Replaces the local gradient, float32 [P], by the mean over all learners' rows, in place.

        `rows` [] is the number of rows that the local gradient is the mean of; None, on all ranks: equal numbers.
        """

    def all_reduce_max(self, value: float) -> float:
        """Returns the largest of the values that the learners pass."""

    def all_reduce_sum(self, values: Sequence[float]) -> list[float]:
        """Returns the sum over all learners of each of several values."""

    def all_gather(self, values: Sequence[float]) -> list[list[float]]:
        """Returns the values of all learners, in the order of their ranks; each passes as many."""

    def assert_same_on_all_ranks(self, digests: Mapping[str, int]) -> None:
        """Raises UsageError if another learner has another int64 under one of these names."""


class NoAllReduce:
    """The edge of a single learner: its gradient is the mean already."""

    def reduce(self, gradient_P: Tensor, rows: Tensor | None = None) -> None:
        pass

    def all_reduce_max(self, value: float) -> float:
        return value

    def all_reduce_sum(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def all_gather(self, values: Sequence[float]) -> list[list[float]]:
        return [list(values)]

    def assert_same_on_all_ranks(self, digests: Mapping[str, int]) -> None:
        pass


class AllReduce:
    """The mean over `count` learners, by NCCL where they have accelerators, else by Gloo.

    Args:
        rank: of this learner.
        rendezvous_file: a path where no file is yet, visible to all, at which the learners rendezvous.
        device: where gradients are.
        heartbeat: called about once a second while it waits for the others.

    Raises:
        PeerLostError: from every method, when another learner is gone or does not call it in time.
    """

    def __init__(
        self,
        rank: int,
        count: int,
        rendezvous_file: Path,
        device: torch.device,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        self._rank, self._count, self._device, self._heartbeat = rank, count, device, heartbeat
        self._is_waiting = False
        # The others may take long, or hang; a learner that only waits for them must not be taken for the hung one.
        threading.Thread(target=self._send_heartbeats, daemon=True).start()
        with self._waiting():
            torch.distributed.init_process_group(
                "gloo" if device.type == "cpu" else "nccl",
                init_method=f"file://{rendezvous_file.absolute()}",
                rank=rank,
                world_size=count,
                timeout=_DEADLINE,
            )

    def reduce(self, gradient_P: Tensor, rows: Tensor | None = None) -> None:
        with self._waiting():
            if rows is None:
                gradient_P /= self._count
            else:
                total_rows = rows.clone()
                torch.distributed.all_reduce(total_rows)
                gradient_P *= rows / total_rows.clamp(min=1.0)
            torch.distributed.all_reduce(gradient_P)

    def all_reduce_max(self, value: float) -> float:
        value_1 = torch.tensor([value], dtype=torch.float64, device=self._device)
        with self._waiting():
            torch.distributed.all_reduce(value_1, torch.distributed.ReduceOp.MAX)
            return float(value_1)

    def all_reduce_sum(self, values: Sequence[float]) -> list[float]:
        values_V = torch.tensor(values, dtype=torch.float64, device=self._device)
        with self._waiting():
            torch.distributed.all_reduce(values_V)
            return values_V.tolist()

    def all_gather(self, values: Sequence[float]) -> list[list[float]]:
        own_V = torch.tensor(values, dtype=torch.float64, device=self._device)
        all_LV = [torch.empty_like(own_V) for _ in range(self._count)]
        with self._waiting():
            torch.distributed.all_gather(all_LV, own_V)
            return [theirs_V.tolist() for theirs_V in all_LV]

    def assert_same_on_all_ranks(self, digests: Mapping[str, int]) -> None:
        own_D = torch.tensor(list(digests.values()), dtype=torch.int64, device=self._device)
        all_LD = [torch.empty_like(own_D) for _ in range(self._count)]
        with self._waiting():
            torch.distributed.all_gather(all_LD, own_D)
            all_LD = [theirs_D.cpu() for theirs_D in all_LD]
        for rank, theirs_D in enumerate(all_LD):
            for name, own, theirs in zip(digests, digests.values(), theirs_D.tolist(), strict=True):
                if own != theirs:
                    raise UsageError(
                        f"learners {self._rank} and {rank} differ in their {name}: all of them must have the same; "
                        "take the same versions of veldt and torch on all nodes, and let a network of your own begin "
                        "from torch's random numbers, which are seeded"
                    )

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Context of a wait for the others: a RuntimeError in it means that one of them is lost."""
        self._is_waiting = True
        try:
            yield
            # On an accelerator the call was only queued, and would otherwise be waited for outside this block.
            synchronise(self._device)
        except RuntimeError as error:
            raise PeerLostError(
                f"another learner has ended, or did not answer within {_DEADLINE}: {first_line(error)}"
            ) from error
        finally:
            self._is_waiting = False

    def _send_heartbeats(self) -> None:
        while True:
            time.sleep(_HEARTBEAT_S)
            if self._is_waiting:
                self._heartbeat()
