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
from veldt.replay.batch import ReplayBatch, importance_weights
from veldt.runtime.shared import Layout

COUNT, PRIORITY, LENGTH = "count", "priority", "length"
_FIELD = "row/"  # before the names of the user's own arrays
_POLL_S = 0.25


@dataclass(frozen=True)
class RowFormat:
    """The arrays of a row as the user names them, shape and dtype of each; of an episode, those of one step."""

    fields: Mapping[str, Layout]
    episode_steps: int

    @classmethod
    def of(cls, row: Mapping[str, tuple[tuple[int, ...], str]], episode_steps: int) -> RowFormat:
        """Returns the format of a row of these shapes and dtypes. Raises UsageError where one is not understood."""
        fields = {}
        for name, described in row.items():
            try:
                shape, dtype = described
                fields[name] = Layout(tuple(int(size) for size in shape), np.dtype(dtype).name)
            except (TypeError, ValueError):
                raise UsageError(
                    f"row['{name}'] of a DistributedBuffer is {described!r}: give shape and dtype, such as "
                    '((4,), "float32"), or ((), "int64") for a number'
                ) from None
            if name == PRIORITY or np.dtype(dtype).kind not in "biuf":
                raise UsageError(
                    f"row['{name}'] of a DistributedBuffer is {described!r}: any name but '{PRIORITY}', and a dtype of "
                    "numbers or bool"
                )
        if not fields:
            raise UsageError("row of a DistributedBuffer is empty: name the arrays of a transition")
        return cls(fields, episode_steps)

    @property
    def layouts(self) -> dict[str, Layout]:
        """The arrays of a row as they are stored: those of an episode with all its steps, and its length."""
        if not self.episode_steps:
            return {_FIELD + name: layout for name, layout in self.fields.items()}
        padded = {
            _FIELD + name: Layout((self.episode_steps, *layout.shape), layout.dtype)
            for name, layout in self.fields.items()
        }
        return padded | {LENGTH: Layout((), "int64")}

    def write(self, row: Mapping[str, Any], into: Arrays, at: int) -> None:
        """Writes a row to position `at`. Raises UsageError, before anything is written, for one of another format."""
        if row.keys() != self.fields.keys():
            raise UsageError(
                f"a row with {_listed(row)} was added, and the buffer's has {_listed(self.fields)}: give each of "
                "these by its name"
            )
        arrays = {name: _as_array(row[name]) for name in self.fields}
        steps = self._steps(arrays) if self.episode_steps else 0
        for name, layout in self.fields.items():
            array, shape = arrays[name], (*((steps,) if self.episode_steps else ()), *layout.shape)
            if array.shape != shape or not _is_of_kind(array.dtype, layout.dtype):
                raise UsageError(
                    f"'{name}' of a row is {array.dtype} {list(array.shape)}, and the buffer's is {layout.dtype} "
                    f"{list(shape)}{' for an episode of so many steps' if self.episode_steps else ''}: convert it, or "
                    "name another shape and dtype in the buffer's row"
                )
            _check_range(name, array, layout.dtype)
        for name, array in arrays.items():
            if self.episode_steps:
                into[_FIELD + name][at, :steps], into[_FIELD + name][at, steps:] = array, 0
            else:
                into[_FIELD + name][at] = array
        if self.episode_steps:
            into[LENGTH][at] = steps

    def _steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        name, first = next(iter(arrays.items()))
        steps = len(first) if first.ndim else 0
        if not 0 < steps <= self.episode_steps:
            raise UsageError(
                f"an episode of {steps} steps was added (by '{name}'), and the buffer is for 1 to "
                f"{self.episode_steps}: raise episode_steps, or add a long episode in parts"
            )
        return steps

    def read(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        """Returns copies of a batch's arrays, under the user's names: [N, ...], of episodes [N, longest, ...]."""
        longest = int(arrays[LENGTH].max()) if self.episode_steps else None
        return {
            name: torch.from_numpy(
                np.array(arrays[_FIELD + name][:, :longest] if longest else arrays[_FIELD + name])
            )
            for name in self.fields
        }


def _as_array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
    return np.asarray(value)


def _is_of_kind(given: np.dtype, stored: str) -> bool:
    """Whether an array can be stored as such a dtype: without a change of kind; an integer as any kind of integer."""
    is_whole = given.kind in "iu" and np.dtype(stored).kind in "iu"
    return is_whole or np.can_cast(given, stored, "same_kind")


def _check_range(name: str, array: np.ndarray, stored: str) -> None:
    """Raises UsageError for integers that a dtype of integers cannot hold."""
    if np.dtype(stored).kind not in "iu" or np.can_cast(array.dtype, stored, "safe") or not array.size:
        return
    least, most, allowed = int(array.min()), int(array.max()), np.iinfo(stored)
    if least < allowed.min or most > allowed.max:
        value = least if least < allowed.min else most
        raise UsageError(
            f"'{name}' of a row has the value {value}, and the buffer's {stored} is for {allowed.min} to "
            f"{allowed.max}: name a larger dtype in the buffer's row, such as int64"
        )


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "nothing"


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
            priority: its first one, 0 or more; None: the largest so far.
            row: an array, tensor, number or list for each name of the buffer's `row`: of its shape, with a dtype that
                can be converted without a change of kind. Integers may be of any type whose values fit.

        Raises:
            UsageError: names, shapes or dtypes are not the buffer's, an integer is too large for it, or the episode is
                too long.
            VeldtError: the other side has not gone on within `deadline_s`.
        """
        if priority is not None and not (priority >= 0 and math.isfinite(priority)):
            raise UsageError(f"priority of a row is {priority}: it must be finite, and 0 or more")
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
        priority_N = _as_array(priorities).astype(np.float64)
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
            f"rows, {self._rate.steps:,} were added, and the first batch comes after {self._rate.starts:,}"
        )
