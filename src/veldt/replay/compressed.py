"""Compressed frames (zlib's fastest level): less memory, by a factor that depends on the game, for slower draws.

Their size is not known in advance: only the minimum is checked (see `size`).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from veldt.envs.spec import ArraySpec
from veldt.envs.stacks import write_stacks

_LEVEL = 1


class CompressedRows:
    """See `frames.Store`. `row_P` holds the bytes of each position, None where nothing was written yet."""

    def __init__(self, field: ArraySpec, width: int, rows: int, threads: int) -> None:
        self._shape, self._threads = field.shape, threads
        self.row_P: list[bytes | None] = [None] * (width * rows)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="compress-frames")

    def write(self, position_M: np.ndarray, source: np.ndarray, source_M: np.ndarray) -> None:
        row_M = source_M.tolist()
        packed_M: list[bytes] = self._share_out(lambda m: zlib.compress(source[row_M[m]], _LEVEL), len(row_M))
        for position, packed in zip(position_M.tolist(), packed_M, strict=True):
            self.row_P[position] = packed

    def rows(self, position_N: np.ndarray, out: np.ndarray) -> None:
        def unpack(n: int) -> None:
            packed = self.row_P[position_N[n]]
            assert packed is not None
            out[n] = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(self._shape)

        self._share_out(unpack, len(position_N))

    def stacks(self, frame_SNK: np.ndarray, out_S: Sequence[np.ndarray]) -> None:
        position_F, which = np.unique(frame_SNK, return_inverse=True)  # one frame is in several stacks
        blanks = int(position_F[0] < 0)
        frames = np.empty((len(position_F) - blanks, *self._shape), np.uint8)
        self.rows(position_F[blanks:], frames)
        write_stacks(frames, which.reshape(frame_SNK.shape) - blanks, out_S, self._threads)

    def _share_out(self, work: Callable[[int], Any], count: int) -> list[Any]:
        """Returns the results of `work` on 0, ..., count - 1; each thread computes one contiguous range."""
        edges = itertools.pairwise([count * i // self._threads for i in range(self._threads + 1)])
        stretches = self._pool.map(lambda edge: [work(n) for n in range(*edge)], edges)
        return list(itertools.chain.from_iterable(stretches))
