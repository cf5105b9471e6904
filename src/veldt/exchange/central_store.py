"""The central store of asynchronous learners: parameters and their rule's state in shared memory.

Both are divided into a few disjoint chunks with a lock each. A learner takes the chunks in the order in which they are
free, so that several learners update at once and mostly none waits (Stooke & Abbeel, section 4.3).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import BaseContext

import numpy as np
import torch
from torch import Tensor

from veldt.errors import PeerLostError
from veldt.exchange.parameter_partition import PARAMETERS, split_evenly
from veldt.runtime.locks import RecordLocks
from veldt.runtime.shared import Layout, SharedArrays

# Pause between checks for a free chunk: about half the time that a chunk is held, within these limits. Each check takes
# a core away from learners that hold a chunk.
_LEAST_PAUSE_S, _MOST_PAUSE_S = 2e-4, 5e-3


@dataclass(frozen=True)
class CentralStoreSpec:
    """Initial contents of the store, and its number of chunks.

    Args:
        initial: float32 [P] by name, "parameters" and the rule's accumulators; and [], the rule's step counts.
        deadline_s: longest wait for a chunk: longer than a live process may go without a heartbeat.
    """

    initial: Mapping[str, np.ndarray]
    chunks: int
    deadline_s: float


@dataclass(frozen=True)
class Chunk:
    """The store's parameters `first` up to `end` and their state as views, by name: float32 [end - first] or []."""

    first: int
    end: int
    tensors: Mapping[str, Tensor]


class CentralStore:
    """See the module. Picklable while a process is being started."""

    def __init__(self, spec: CentralStoreSpec, context: BaseContext | None) -> None:
        total = len(spec.initial[PARAMETERS])
        self._bounds = split_evenly(total, spec.chunks)
        # Each chunk has a step count of its own: chunks are updated separately.
        shapes = {name: array.shape or (spec.chunks, 16) for name, array in spec.initial.items()}
        layouts = {name: Layout(shape, "float32") for name, shape in shapes.items()}
        layouts["holder"] = Layout((spec.chunks, 8), "int64")
        self._arrays, self._locks = SharedArrays(layouts, context), RecordLocks(spec.chunks)
        self._names, self._deadline_s = list(spec.initial), spec.deadline_s
        for name, array in spec.initial.items():
            self._arrays[name][...] = array

    def client(self, rank: int, heartbeat: Callable[[], None] = lambda: None) -> CentralStoreClient:
        """Opens the client of the learner of this rank. `heartbeat` is called while it waits."""
        return CentralStoreClient(
            self._arrays, self._names, self._bounds, self._locks, self._deadline_s, rank, heartbeat
        )


class CentralStoreClient:
    """A learner's end. `blocked_s` and `updating_s`: seconds in which it waited for a chunk, and in which it held one.

    Made in the process that uses it.
    """

    def __init__(
        self,
        arrays: SharedArrays,
        names: Sequence[str],
        bounds: Sequence[tuple[int, int]],
        locks: RecordLocks,
        deadline_s: float,
        rank: int,
        heartbeat: Callable[[], None],
    ) -> None:
        self._tensors = {name: torch.from_numpy(arrays[name]) for name in names}
        self._holder_C: np.ndarray = arrays["holder"][:, 0]
        self._bounds, self._locks, self._rank, self._heartbeat = bounds, locks, rank, heartbeat
        self._deadline_s = deadline_s
        self.blocked_s = self.updating_s = 0.0
        self._pause_s = _LEAST_PAUSE_S

    def values(self) -> dict[str, Tensor]:
        """Current values by name: float32 [P], views of the store, which others may be writing; and [], the first
        chunk's step counts."""
        return {name: tensor if tensor.ndim == 1 else tensor[0, 0] for name, tensor in self._tensors.items()}

    def chunks(self) -> Iterator[Chunk]:
        """Yields each chunk once, locked while the loop's body runs.

        Raises:
            PeerLostError: no chunk has been free for longer than a live process may hold one.
        """
        count = len(self._bounds)
        # Each learner starts at another chunk, so that they do not queue behind each other.
        remaining = [(self._rank + offset) % count for offset in range(count)]
        while remaining:
            number = self._lock_any(remaining)
            remaining.remove(number)
            began = time.perf_counter()
            try:
                self._holder_C[number] = self._rank
                first, end = self._bounds[number]
                yield Chunk(
                    first,
                    end,
                    {
                        name: tensor[first:end] if tensor.ndim == 1 else tensor[number, 0]
                        for name, tensor in self._tensors.items()
                    },
                )
            finally:
                self._locks.give_back(number)
                held_s = time.perf_counter() - began
                self.updating_s += held_s
                self._pause_s = min(max(held_s / 2, _LEAST_PAUSE_S), _MOST_PAUSE_S)

    def copied(self) -> dict[str, np.ndarray]:
        """Returns copies of all values, by name: each chunk as it was between two updates."""
        copies = {name: torch.empty_like(value) for name, value in self.values().items()}
        for chunk in self.chunks():
            for name, value in chunk.tensors.items():
                (copies[name][chunk.first : chunk.end] if value.ndim else copies[name]).copy_(value)
        return {name: value.numpy() for name, value in copies.items()}

    def _lock_any(self, remaining: Sequence[int]) -> int:
        """Locks one of the `remaining` chunks as soon as one is free, and returns its number."""
        began, has_waited = time.perf_counter(), False

        def wait() -> None:
            nonlocal has_waited
            has_waited = True
            self._heartbeat()

        number = self._locks.take_any(remaining, self._deadline_s, self._pause_s, wait)
        if number is not None:
            self.blocked_s += time.perf_counter() - began if has_waited else 0.0
            return number
        held = ", ".join(f"{number} by learner {self._holder_C[number]}" for number in remaining)
        raise PeerLostError(
            f"no chunk of the central store has been free for {self._deadline_s:g} s (last locked: {held})"
        )
