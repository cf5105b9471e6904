"""Storage of observations: one store for each field, with single frames where the network sees a stack."""

from __future__ import annotations

from typing import Protocol

import numba
import numpy as np

from veldt.envs.spec import ArraySpec
from veldt.envs.stacks import write_stacks
from veldt.replay.compressed import CompressedRows
from veldt.replay.settings import is_compressed


class Store(Protocol):
    """One field's observations by position: b R + r mod R for row r of env b."""

    def write(self, position_M: np.ndarray, source: np.ndarray, source_M: np.ndarray) -> None:
        """Copies row `source_M[m]` of `source` [S, ...] to `position_M[m]`, in order; both int64 [M]."""

    def rows(self, position_N: np.ndarray) -> np.ndarray:
        """Returns copies of rows, [N, ...]."""

    def stacks(self, frame_SNK: np.ndarray, out: np.ndarray) -> None:
        """Writes stacks of the frames at `frame_SNK` (-1: blank), oldest first, into `out` uint8 [S, N, H, W, K]."""


class RawRows:
    """Uncompressed rows: `array` [B, R, ...]. The rows of an env are contiguous, so most stacks are one range.

    The operating system allocates the memory when it is first written to.
    """

    def __init__(self, field: ArraySpec, width: int, rows: int, threads: int) -> None:
        self.array = np.zeros((width, rows, *field.shape), field.dtype)
        self._flat = self.array.reshape(width * rows, *field.shape)
        self._threads = threads

    def write(self, position_M: np.ndarray, source: np.ndarray, source_M: np.ndarray) -> None:
        numbers, flat = source.reshape(len(source), -1), self._flat.reshape(len(self._flat), -1)
        _copy(flat, position_M, numbers, source_M)

    def rows(self, position_N: np.ndarray) -> np.ndarray:
        return self._flat[position_N]

    def stacks(self, frame_SNK: np.ndarray, out: np.ndarray) -> None:
        write_stacks(self._flat, frame_SNK, out, self._threads)


def make_store(field: ArraySpec, width: int, rows: int, compress: bool, threads: int) -> Store:
    """Makes the store of a field."""
    return (CompressedRows if compress and is_compressed(field) else RawRows)(field, width, rows, threads)


@numba.njit(nogil=True, cache=True)
def _copy(out, position_M, source, source_M):  # type: ignore[no-untyped-def]
    for m in range(len(position_M)):
        to, of = position_M[m], source_M[m]
        for x in range(source.shape[1]):
            out[to, x] = source[of, x]
