"""The weights edge: a learner publishes weights, and roles that act pull them if they are newer than their own.

    learner --publish(version)--> two copies in shared memory --pull-if-newer(version)--> actors, evaluators

Neither waits for the other. The learner writes the older copy and then marks it as the newest; a reader whose copy was
overwritten while it read (two versions were published meanwhile) reads again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from multiprocessing.context import BaseContext
from typing import Protocol

import numpy as np

from veldt.errors import VeldtError
from veldt.exchange.slots import Arrays
from veldt.runtime.shared import Layout, SharedArrays

_DEADLINE_S = 30.0  # for a pull: torn reads for so long mean that this process gets no core
_BEGUN, _DONE = 0, 1
_NONE = -1  # the version before any is published


class Weights(Protocol):
    """The edge as roles get it, on every runtime. A version is the number of updates that made the weights."""

    def publish(self, version: int, arrays: Arrays) -> None:
        """Publishes `arrays` as the newest weights, to all readers at once."""

    def pull_if_newer(self, than: int, into: Arrays) -> int:
        """Copies the newest weights if their version is not `than`; returns the version that `into` then has.

        (The newest are those published last: a restarted learner may publish an older version.)
        """

    def check(self, arrays: Arrays) -> None:
        """Raises VeldtError unless these are the arrays that the edge carries."""


class SharedWeights:
    """See `Weights`: in memory that processes share. Picklable while a process is being started.

    Args:
        layouts: shape and dtype of each array.
    """

    def __init__(self, layouts: Mapping[str, Layout], context: BaseContext | None) -> None:
        self._layouts = dict(layouts)
        twice = {f"{copy}/{name}": layout for copy in (0, 1) for name, layout in layouts.items()}
        counters = {"counts": Layout((2,), "int64"), "version": Layout((2,), "int64")}
        self._arrays = SharedArrays(counters | twice, context)
        self._arrays["version"][:] = _NONE
        self._name_arrays()

    def _name_arrays(self) -> None:
        self._counts, self._versions = self._arrays["counts"], self._arrays["version"]
        self._copies = [{name: self._arrays[f"{copy}/{name}"] for name in self._layouts} for copy in (0, 1)]

    def __getstate__(self) -> tuple[dict[str, Layout], SharedArrays]:
        return self._layouts, self._arrays

    def __setstate__(self, state: tuple[dict[str, Layout], SharedArrays]) -> None:
        self._layouts, self._arrays = state
        self._name_arrays()

    def check(self, arrays: Arrays) -> None:
        check_layouts(self._layouts, arrays)

    def publish(self, version: int, arrays: Arrays) -> None:
        counts, versions = self._counts, self._versions
        number = int(counts[_DONE]) + 1
        copy = number % 2
        counts[_BEGUN] = number
        _fence()
        versions[copy] = version
        for name, array in arrays.items():
            np.copyto(self._copies[copy][name], array)
        _fence()
        counts[_DONE] = number

    def pull_if_newer(self, than: int, into: Arrays) -> int:
        counts, versions = self._counts, self._versions
        end = None
        while True:
            number = int(counts[_DONE])
            copy = number % 2
            version = int(versions[copy])
            is_newer = version not in (than, _NONE)
            if is_newer:
                for name, array in into.items():
                    np.copyto(array, self._copies[copy][name])
            _fence()
            if counts[_BEGUN] <= number + 1:  # else a newer version may have overwritten part of the copy
                return version if is_newer else than
            end = end or time.monotonic() + _DEADLINE_S
            if time.monotonic() > end:
                raise VeldtError(
                    f"no whole copy of the weights could be read in {_DEADLINE_S:g} s, because newer versions "
                    "overwrote each: this process gets too little of a core; use fewer processes"
                )


def check_layouts(layouts: Mapping[str, Layout], arrays: Arrays) -> None:
    """Raises VeldtError unless these arrays have the layouts that the edge carries."""
    ours = {name: (layout.shape, np.dtype(layout.dtype)) for name, layout in layouts.items()}
    theirs = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise VeldtError(
                f"the weights '{name}' are {_describe(theirs.get(name))} here and {_describe(ours.get(name))} at their "
                "source: both must make the same network, from the same environment and settings"
            )


def _describe(found: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "absent" if found is None else f"{found[1]} {list(found[0])}"


def _fence(lock: threading.Lock = threading.Lock()) -> None:  # noqa: B008
    """Memory fence: writes before it are visible before writes after it, on every processor."""
    with lock:
        pass
