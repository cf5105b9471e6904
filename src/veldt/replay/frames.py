"""Storage of observations: one store for each field, with single frames where the network sees a stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from veldt.compiled import njit
from veldt.envs.spec import ArraySpec
from veldt.envs.stacks import write_stacks
from veldt.replay.compressed import CompressedRows
from veldt.replay.settings import is_compressed


class Store(Protocol):
    """One field's observations by position: b R + r mod R for row r of env b."""

    def write(self, position_M: np.ndarray, source: np.ndarray, source_M: np.ndarray) -> None:
        """Copies row `source_M[m]` of `source` [S, ...] to `position_M[m]`, in order; both int64 [M]."""

    def rows(self, position_N: np.ndarray, out: np.ndarray) -> None:
        """Copies rows into `out` [N, ...]."""

    def stacks(self, frame_SNK: np.ndarray, out_S: Sequence[np.ndarray]) -> None:
        """Writes stacks of the frames at `frame_SNK` (-1: blank), oldest first, into S arrays uint8 [N, H, W, K]."""


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

    def rows(self, position_N: np.ndarray, out: np.ndarray) -> None:
        np.take(self._flat, position_N, axis=0, out=out, mode="clip")  # "raise" would copy twice

    def stacks(self, frame_SNK: np.ndarray, out_S: Sequence[np.ndarray]) -> None:
        write_stacks(self._flat, frame_SNK, out_S, self._threads)


def make_store(field: ArraySpec, width: int, rows: int, compress: bool, threads: int) -> Store:
    """Makes the store of a field."""
    return (CompressedRows if compress and is_compressed(field) else RawRows)(field, width, rows, threads)


def read_observations(
    store: Store, stack: int, episode_step: np.ndarray, position_SN: np.ndarray, out_S: Sequence[np.ndarray]
) -> None:
    """Writes one field's observations of S rows of N transitions into S arrays, [N, ...] or [N, H, W, K].

    All S are made in one pass through the storage: the stacks before and after a step have frames in common.

    Args:
        stack: K, or 1.
        episode_step: int32 [B, R], of all rows of the ring.
        position_SN: int64 [S, N].
    """
    if stack > 1:
        store.stacks(_frames(episode_step, position_SN, stack), out_S)
        return
    for position_N, out in zip(position_SN, out_S, strict=True):
        store.rows(position_N, out)


@njit()
def _frames(episode_step, position_SN, stack):  # type: ignore[no-untyped-def]
    """Returns the positions of the frames in each row's stack, oldest first; -1 before the episode's start."""
    sets, count = position_SN.shape
    rows = episode_step.shape[1]
    frame_SNK = np.empty((sets, count, stack), np.int64)
    for s in range(sets):
        for n in range(count):
            b, place = divmod(position_SN[s, n], rows)
            for k in range(stack):
                back = stack - 1 - k
                before = place - back if place >= back else place - back + rows
                frame_SNK[s, n, k] = b * rows + before if back <= episode_step[b, place] else -1
    return frame_SNK


@njit()
def _copy(out, position_M, source, source_M):  # type: ignore[no-untyped-def]
    for m in range(len(position_M)):
        to, of = position_M[m], source_M[m]
        for x in range(source.shape[1]):
            out[to, x] = source[of, x]
