"""The weights edge: a learner publishes, and whoever acts pulls what is newer than what it has.

    learner --publish(version)--> two copies in shared memory --pull_if_newer(version)--> actors, evaluators

Neither waits for the other. The learner writes the older copy and then names it the newest; a reader whose copy was
overwritten while it read (two versions came meanwhile) reads again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from multiprocessing.context import BaseContext
from typing import Protocol

import numpy as np

from veldt.errors import VeldtError
from veldt.runtime.shared import Layout, SharedArrays

Arrays = Mapping[str, np.ndarray]

_DEADLINE_S = 30.0  # for a pull: that many torn reads mean that nobody lets this process run
_BEGUN, _DONE = 0, 1
_NONE = -1  # the version of what was never published


class Weights(Protocol):
    """The edge as roles see it, wherever they run. A version is the number of updates that made the weights."""

    def publish(self, version: int, arrays: Arrays) -> None:
        """Makes `arrays` the newest, for all readers at once."""

    def pull_if_newer(self, than: int, into: Arrays) -> int:
        """Copies the newest weights if their version is not `than`; returns the version that `into` then has.

        (What is published last counts as the newest: a learner that died goes on from an older version.)
        """

    def check(self, arrays: Arrays) -> None:
        """VeldtError unless these are the arrays that the edge carries."""


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

    def check(self, arrays: Arrays) -> None:
        check_layouts(self._layouts, arrays)

    def publish(self, version: int, arrays: Arrays) -> None:
        counts, versions = self._arrays["counts"], self._arrays["version"]
        number = int(counts[_DONE]) + 1
        copy = number % 2
        counts[_BEGUN] = number
        _fence()
        versions[copy] = version
        for name, array in arrays.items():
            np.copyto(self._arrays[f"{copy}/{name}"], array)
        _fence()
        counts[_DONE] = number

    def pull_if_newer(self, than: int, into: Arrays) -> int:
        counts, versions = self._arrays["counts"], self._arrays["version"]
        end = None
        while True:
            number = int(counts[_DONE])
            copy = number % 2
            version = int(versions[copy])
            is_newer = version not in (than, _NONE)
            if is_newer:
                for name, array in into.items():
                    np.copyto(array, self._arrays[f"{copy}/{name}"])
            _fence()
            if counts[_BEGUN] <= number + 1:  # else the copy may be half of a newer one
                return version if is_newer else than
            end = end or time.monotonic() + _DEADLINE_S
            if time.monotonic() > end:
                raise VeldtError(
                    f"in {_DEADLINE_S:g} s no whole copy of the weights could be read: two versions came in each"
                )


def check_layouts(layouts: Mapping[str, Layout], arrays: Arrays) -> None:
    """VeldtError unless these are the arrays that an edge of such weights carries."""
    ours = {name: (layout.shape, np.dtype(layout.dtype)) for name, layout in layouts.items()}
    theirs = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise VeldtError(
                f"the weights '{name}' are {_said(theirs.get(name))} here and {_said(ours.get(name))} at their "
                "source: both must make the same network, from the same environment and settings"
            )


def _said(found: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "absent" if found is None else f"{found[1]} {list(found[0])}"


def _fence(lock: threading.Lock = threading.Lock()) -> None:  # noqa: B008
    """What was written before is there before what is written after, on every processor."""
    with lock:
        pass
