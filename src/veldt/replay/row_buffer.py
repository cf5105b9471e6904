"""A replay buffer of rows of any kind: the newest ones, uniform or prioritised. A row is a transition, or an episode.

Row r, counted from the first one on, is at position r mod R, and r is its key: so a priority that comes after its row
was overwritten is recognised.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veldt.replay.batch import ReplayBatch
from veldt.replay.sampling_registry import SamplingStrategy
from veldt.replay.sampling_strategy import Prioritised, Uniform, check_priorities
from veldt.runtime.shared import Layout


def row_batch_layouts(row: Mapping[str, Layout], rows: int) -> dict[str, Layout]:
    """Returns the layouts of the arrays of a batch of `rows` rows, each with these arrays."""
    stacked = {name: Layout((rows, *layout.shape), layout.dtype) for name, layout in row.items()}
    return stacked | {"mass": Layout((rows,), "float64"), "key": Layout((rows,), "int64")}


class RowBuffer:
    """Stores and samples the newest `rows` rows; `len` is their number now.

    `dropped` counts priorities that arrived after their rows were overwritten. `valid` bool [1, R] are positions that
    have a row, those of the rows `first` up to `end`, int64 [1].

    Args:
        row: the arrays of one row.
        rows: R.
        alpha: exponent of prioritised sampling; 0: uniform.
    """

    def __init__(self, row: Mapping[str, Layout], rows: int, alpha: float) -> None:
        self.rows, self.dropped = rows, 0
        self.valid = np.zeros((1, rows), bool)
        self._arrays = {name: np.zeros((rows, *layout.shape), layout.dtype) for name, layout in row.items()}
        self._written = 0
        self.index: SamplingStrategy = Prioritised(self, alpha) if alpha else Uniform(self)

    def __len__(self) -> int:
        return self.sampleable

    @property
    def sampleable(self) -> int:
        return min(self._written, self.rows)

    @property
    def first(self) -> np.ndarray:
        return np.array([max(0, self._written - self.rows)])

    @property
    def end(self) -> np.ndarray:
        return np.array([self._written])

    def append(self, arrays: Mapping[str, np.ndarray], priority_M: np.ndarray) -> None:
        """Appends M rows, at most R, in the place of the oldest ones.

        Args:
            arrays: [M, ...] by name.
            priority_M: raw priorities float64; NaN: the largest so far. VeldtError if another one is not valid.
        """
        check_priorities(priority_M[~np.isnan(priority_M)])
        row_M = np.arange(self._written, self._written + len(priority_M))
        position_M = row_M % self.rows
        for name, array in self._arrays.items():
            array[position_M] = arrays[name]
        self.valid[0, position_M] = True
        self._written += len(row_M)
        self.index.written(position_M[row_M >= self.rows], position_M, priority_M)

    def sample(self, batch: ReplayBatch, seed: int) -> None:
        """Draws all rows of `batch` with replacement, determined by `seed` (64 bits) and the buffer's content.

        There must be a row.
        """
        position_N, batch.mass_N[:] = self.index.sample(len(batch), seed)
        for name, array in self._arrays.items():
            np.take(array, position_N, 0, out=batch.arrays[name], mode="clip")
        first = int(self.first[0])
        batch.key_N[:] = first + (position_N - first) % self.rows

    def update(self, key_N: np.ndarray, priority_N: np.ndarray) -> None:
        """Sets new raw priorities of sampled rows; drops and counts those of rows that were overwritten.

        VeldtError if one of the others is not valid.
        """
        is_there_N = key_N >= self.first
        self.dropped += len(key_N) - int(is_there_N.sum())
        kept_N = np.asarray(priority_N, np.float64)[is_there_N]
        check_priorities(kept_N)
        self.index.update(key_N[is_there_N] % self.rows, kept_N)
