"""The ends of a `DistributedBuffer` in the user's functions: one adds rows, the other samples batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.envs.seeding import REPLAY, derive_seed
from veldt.errors import UsageError
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.replay import ReplayIn
from veldt.exchange.slots import Arrays, SlotOut
from veldt.own_loop.role_process import RoleProcess
from veldt.own_loop.row_format import LENGTH, PRIORITY, RowFormat, as_array
from veldt.replay.batch import ReplayBatch, importance_weights

COUNT = "count"  # of the rows in a slot
_POLL_S = 0.25


class BufferAdder:
    """What the functions of a buffer's `source` get."""

    def __init__(
        self,
        name: str,
        process: RoleProcess,
        row: RowFormat,
        out: SlotOut,
        rate: RateLimiter,
        deadline_s: float,
    ) -> None:
        self._name, self._process, self._format, self._deadline_s = name, process, row, deadline_s
        self._out, self._rate = out, rate
        self._slot: Arrays | None = None
        self._count = 0
        process.at_end(self.flush)

    def add(self, *, priority: float | None = None, **row: Any) -> None:
        """Adds a row: a transition, or with `episode_steps` an episode, whose arrays then begin with its T steps.

        Transitions are sent several at a time; an episode is sent at once. Waits where a `training_intensity` is set
        and the processes that sample are behind, or where the buffer's process is. A row that waits when all processes
        are asked to end is not added.

        Args:
            priority: its first one, 0 or more; None: the largest so far of its shard.
            row: an array, tensor, number or list for each name of the buffer's `row`: of its shape, with a dtype that
                can be converted without a change of kind. Integers may be of any type whose values fit.

        Raises:
            UsageError: names, shapes or dtypes are not the buffer's, an integer is too large for it, or the episode is
                too long.
            VeldtError: the other side has not gone on within `deadline_s`.
        """
        if priority is not None and not (priority >= 0 and math.isfinite(priority)):
            raise UsageError(f"the priority of a row is {priority}: it must be finite, and 0 or more")
        slot = self._slot = self._slot or self._free_slot()
        if slot is None:
            return
        self._format.write(row, slot, self._count)
        slot[PRIORITY][self._count] = math.nan if priority is None else priority
        self._count += 1
        if self._count == len(slot[PRIORITY]):
            self.flush()

    def flush(self) -> None:
        """Sends the rows that were not sent yet. Also done when the function returns."""
        if self._slot is None:
            return
        self._slot[COUNT][0] = self._count
        self._out.commit()
        self._rate.steps_A[self._process.index] += self._count
        self._slot, self._count = None, 0

    def _free_slot(self) -> Arrays | None:
        may_act = self._process.wait_for(
            lambda: self._rate.may_act() or None,
            self._deadline_s,
            lambda: (
                f"no batch was sampled from the buffer '{self._name}' for {self._deadline_s:g} s, and with its "
                "training_intensity more rows must wait for that: a longer deadline_s allows for long updates"
            ),
        )
        if may_act is None:
            return None
        return self._process.wait_for(
            lambda: self._out.slot(_POLL_S),
            self._deadline_s,
            lambda: f"the buffer '{self._name}' has stored no row for {self._deadline_s:g} s",
        )


@dataclass(frozen=True)
class SampledBatch:
    """A batch of N rows, copied: `batch["action"]` is the tensor of that name.

    `rows` are [N, ...] by name, in the buffer's dtypes; of episodes [N, T, ...], with zeros after each one's end.
    `weight` float32 [N] are importance weights, at most 1 (1 without priorities). `length` int64 [N] are the steps of
    each episode, None for transitions.
    """

    rows: Mapping[str, Tensor]
    weight: Tensor
    length: Tensor | None

    def __getitem__(self, name: str) -> Tensor:
        return self.rows[name]

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def mask(self) -> Tensor:
        """Which steps of episodes are there, bool [N, T]."""
        if self.length is None:
            raise UsageError("a batch of transitions has no mask: all rows are there")
        longest = int(self.length.max())
        return torch.arange(longest)[None] < self.length[:, None]


class BufferSampler:
    """What the functions of a buffer's `target` get. `len` is the number of rows that can be sampled."""

    def __init__(
        self,
        name: str,
        process: RoleProcess,
        row: RowFormat,
        client: ReplayIn,
        rate: RateLimiter,
        deadline_s: float,
        seed: int,
        is_prioritised: bool,
    ) -> None:
        self._name, self._process, self._format, self._deadline_s = name, process, row, deadline_s
        self._client, self._rate, self._seed, self._is_prioritised = client, rate, seed, is_prioritised
        self._requested, self._has_batch, self._size = 0, False, 0

    def __len__(self) -> int:
        self._process.heartbeat()
        return self._client.rows

    @property
    def dropped(self) -> int:
        """Priorities that came too late, so far: their rows had been overwritten."""
        return self._client.dropped

    def sample(self, beta: float = 0.4) -> SampledBatch | None:
        """Returns a batch of rows, drawn with replacement over all shards; None when all processes are asked to end.

        Waits for the first rows; with a `training_intensity` also while the next batch is not due.

        Args:
            beta: exponent of the importance weights, of prioritised sampling.

        Raises:
            VeldtError: there was none within `deadline_s`.
        """
        if self._has_batch:
            self._client.give_back(None)
            self._has_batch = False
        stored = self._process.wait_for(self._attempt, self._deadline_s, self._overdue)
        if stored is None or not self._process.running:
            return None
        self._rate.updates_L[self._process.index] += 1
        self._has_batch, self._size = True, len(stored)
        weight = (
            importance_weights(stored.mass_N, beta)
            if self._is_prioritised
            else np.ones(len(stored), np.float32)
        )
        length = stored.arrays.get(LENGTH)
        return SampledBatch(
            self._format.read(stored.arrays),
            torch.from_numpy(weight),
            None if length is None else torch.from_numpy(length.copy()),
        )

    def update(self, priorities: Tensor | np.ndarray) -> None:
        """Sets new priorities, 0 or more [N], of the rows of the batch sampled last; once for each batch.

        Those of rows that were overwritten meanwhile are dropped, and counted.

        Raises:
            UsageError: the buffer has no priorities, there is no such batch, or these are not N finite numbers.
        """
        priority_N = as_array(priorities).astype(np.float64)
        if not self._is_prioritised or not self._has_batch:
            why = "no batch was sampled since the last" if self._is_prioritised else "its alpha is 0"
            raise UsageError(f"priorities of the buffer '{self._name}' are updated, and {why}")
        if priority_N.shape != (self._size,) or not (np.isfinite(priority_N) & (priority_N >= 0)).all():
            span = f" from {priority_N.min():g} to {priority_N.max():g}" if priority_N.size else ""
            raise UsageError(
                f"priorities of the buffer '{self._name}' are {list(priority_N.shape)}{span}: they must be "
                f"[{self._size}], finite, and 0 or more"
            )
        self._client.give_back(priority_N)
        self._has_batch = False

    def _attempt(self) -> ReplayBatch | None:
        if not self._rate.may_learn(self._process.index):
            return None
        while self._client.request(self._next_seed(), 0.0):
            self._requested += 1
        return self._client.take(_POLL_S)

    def _next_seed(self) -> int:
        return derive_seed(self._seed, REPLAY, self._process.index, self._requested)

    def _overdue(self) -> str:
        return (
            f"the buffer '{self._name}' has given no batch for {self._deadline_s:g} s: it has {self._client.rows:,} "
            f"rows, {self._rate.steps:,} were added, and the first batch comes after {self._rate.learning_starts:,}"
        )
