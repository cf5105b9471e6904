"""Running statistics of several learners' data: vectors of numbers in shared memory, which each learner adds to.

A vector is replaced under a lock, and by an index from one of its two copies to the other: a learner that is killed
meanwhile leaves the old numbers, and the lock free.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import BaseContext

import numpy as np

from veldt.errors import PeerLostError
from veldt.runtime.locks import RecordLocks
from veldt.runtime.shared import Layout, SharedArrays

_PAUSE_S = 1e-4  # between checks for the lock, which is held for about as long


@dataclass(frozen=True)
class SharedStatisticsSpec:
    """Initial numbers, float64 [S] by name.

    Args:
        deadline_s: longest wait for the lock: longer than a live process may go without a heartbeat.
    """

    initial: Mapping[str, np.ndarray]
    deadline_s: float


class SharedStatistics:
    """See the module. Picklable while a process is being started."""

    def __init__(self, spec: SharedStatisticsSpec, context: BaseContext | None) -> None:
        layouts = {name: Layout((2, len(numbers)), "float64") for name, numbers in spec.initial.items()}
        self._names, self._deadline_s = tuple(spec.initial), spec.deadline_s
        self._arrays = SharedArrays(layouts | {"newest": Layout((len(layouts),), "int64")}, context)
        self._locks = RecordLocks(1)
        for name, numbers in spec.initial.items():
            self._arrays[name][0] = numbers

    def values(self, heartbeat: Callable[[], None] = lambda: None) -> dict[str, list[float]]:
        """Returns the newest numbers by name. `heartbeat` and errors are as for `update`."""
        with self._locked(heartbeat):
            return {name: self._newest(name).tolist() for name in self._names}

    def update(
        self,
        name: str,
        change: Callable[[np.ndarray], Sequence[float]],
        heartbeat: Callable[[], None] = lambda: None,
    ) -> np.ndarray:
        """Replaces the numbers of `name` by what `change` returns for them; returns these, float64 [S].

        Args:
            heartbeat: called while it waits for another learner.

        Raises:
            PeerLostError: another learner has held the lock for longer than a live process may.
        """
        with self._locked(heartbeat):
            index, newest = self._names.index(name), self._arrays["newest"]
            other = 1 - int(newest[index])
            self._arrays[name][other] = change(self._newest(name))
            newest[index] = other
            return self._newest(name).copy()

    @contextlib.contextmanager
    def _locked(self, heartbeat: Callable[[], None]) -> Iterator[None]:
        if self._locks.take_any((0,), self._deadline_s, _PAUSE_S, heartbeat) is None:
            raise PeerLostError(f"another learner has held the statistics for {self._deadline_s:g} s")
        try:
            yield
        finally:
            self._locks.give_back(0)

    def _newest(self, name: str) -> np.ndarray:
        array: np.ndarray = self._arrays[name][self._arrays["newest"][self._names.index(name)]]
        return array
