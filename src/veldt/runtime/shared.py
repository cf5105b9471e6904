"""Named numpy arrays in one block of memory that processes can share.

The block is a file in /dev/shm whose name is removed before anything is written to it (as `multiprocessing`'s own
arena does) and whose descriptor is passed to the workers. So there is never a name to clean up: when the last process
is gone, for whatever reason, the kernel frees the memory.
"""

from __future__ import annotations

import ctypes
import errno
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

from veldt.errors import UsageError
from veldt.formatting import size

ALIGNMENT = 64  # one cache line, so that two arrays never share one


@dataclass(frozen=True)
class Layout:
    """Shape and dtype of one array."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


class SharedArrays:
    """A mapping from name to array, backed by one block.

    Picklable only while a process is being started (as everything of `multiprocessing`); the child's arrays are the
    same memory. With `context=None` the block is ordinary private memory.
    """

    def __init__(self, layouts: Mapping[str, Layout], context: BaseContext | None) -> None:
        self._layouts = dict(layouts)
        total = sum(_aligned(layout.nbytes) for layout in self._layouts.values())
        if context is None:
            self._block: Any = ctypes.create_string_buffer(max(total, 1))
        else:
            _check_fits(total)
            try:
                self._block = context.RawArray(ctypes.c_char, max(total, 1))
            except OSError as error:
                raise _not_shareable(total, error) from None
        self._arrays = self._views()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __getstate__(self) -> tuple[dict[str, Layout], Any]:
        return self._layouts, self._block

    def __setstate__(self, state: tuple[dict[str, Layout], Any]) -> None:
        self._layouts, self._block = state
        self._arrays = self._views()

    @property
    def block(self) -> np.ndarray:
        """The whole block with all arrays, uint8."""
        return np.frombuffer(self._block, np.uint8)

    def _views(self) -> dict[str, np.ndarray]:
        return arrays_in(self._block, self._layouts)


def arrays_in(block: Any, layouts: Mapping[str, Layout]) -> dict[str, np.ndarray]:
    """Returns the arrays of a block, or of a copy of its bytes."""
    views, offset = {}, 0
    for name, layout in layouts.items():
        count = int(np.prod(layout.shape, dtype=np.int64))
        flat = np.frombuffer(block, dtype=layout.dtype, count=count, offset=offset)
        views[name] = flat.reshape(layout.shape)
        offset += _aligned(layout.nbytes)
    return views


def rows_of(layouts: Mapping[str, Layout], rows: int) -> dict[str, Layout]:
    """Returns the layouts of the same arrays with `rows` rows."""
    return {name: Layout((rows, *layout.shape[1:]), layout.dtype) for name, layout in layouts.items()}


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _check_fits(nbytes: int) -> None:
    # Without this check a block that is too large causes a SIGBUS at a later write, without any message.
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        return
    if nbytes > free:
        raise UsageError(
            f"the arrays that processes share need {size(nbytes)} more of shared memory, and /dev/shm has {size(free)} "
            "free: enlarge /dev/shm (in Docker: --shm-size), or share less (a smaller --num-envs, shorter rollouts, or "
            "where the recipe has these flags, a smaller --buffer-size or fewer --batches-ahead)"
        )


def _not_shareable(nbytes: int, error: OSError) -> UsageError:
    """Returns the sentence for a block that the operating system refuses to make."""
    if error.errno == errno.EFBIG:
        why, mend = (
            "a file may not be that large here (ulimit -f)",
            "raise the limit with `ulimit -f unlimited`",
        )
    elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        why, mend = f"the directory for it cannot be written ({error.strerror})", "mount /dev/shm for writing"
    elif error.errno == errno.EMFILE:
        raise error  # the limit of open files has a sentence of its own
    else:
        why, mend = str(error), "make room in /dev/shm"
    return UsageError(
        f"the arrays that processes share need {size(nbytes)} of shared memory, and {why}: {mend}, or run in one "
        "process (--env-backend in-process and one learner, where the recipe has these)"
    )
