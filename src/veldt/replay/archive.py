"""The replay buffer's files beside the checkpoints: each checkpoint writes only new rows, and names older segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from veldt.errors import CheckpointError
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.snapshot import oldest, restore_rows, restore_state, state, stored_rows
from veldt.runs.segments import SegmentStore
from veldt.runs.tensor_file import Pieces


@dataclass(frozen=True)
class NewRows:
    """Rows of a replay buffer to be written to disk; see `stored_rows`. Rows `first_B` to `end_B`, int64 [B]."""

    first_B: np.ndarray
    end_B: np.ndarray
    arrays: Mapping[str, Pieces]


class ReplayArchive:
    """The copy of a replay buffer in directory `path`.

    The training thread calls `capture`; `write` may run beside training, which pauses only where the replay buffer
    would overwrite rows that are not written yet (`would_overwrite`).
    """

    def __init__(self, path: Path, buffer: ReplayBuffer) -> None:
        self._store, self._buffer = SegmentStore(path), buffer
        self._saved_B = np.zeros_like(buffer.ring.head)
        self._segments: list[dict[str, Any]] = []
        self._unwritten: NewRows | None = None

    def capture(self) -> tuple[NewRows, dict[str, np.ndarray]]:
        """Returns the rows added since the last call, to be written before the next, and a copy of the other state."""
        assert self._unwritten is None, "only one set of rows is kept from being overwritten"
        buffer = self._buffer
        rows = NewRows(
            oldest(buffer, self._saved_B), buffer.ring.head + 1, stored_rows(buffer, self._saved_B)
        )
        self._saved_B, self._unwritten = buffer.ring.head.copy(), rows
        return rows, state(buffer)

    def write(self, rows: NewRows) -> list[dict[str, Any]]:
        """Writes the captured rows; returns the records of all segments that the replay buffer then consists of."""
        if (rows.end_B > rows.first_B + 1).any():
            place = {"first": rows.first_B.tolist(), "end": rows.end_B.tolist()}
            self._segments = [*self._segments, self._store.write(rows.arrays) | place]
        lost_B = rows.end_B - self._buffer.ring.rows
        self._segments = [segment for segment in self._segments if (np.array(segment["end"]) > lost_B).any()]
        self._unwritten = None
        return self._segments

    def would_overwrite(self, steps: int) -> bool:
        """Whether appending a slot of `steps` steps might overwrite rows that are not written yet."""
        rows, ring = self._unwritten, self._buffer.ring
        if rows is None:
            return False
        # An episode that the slot joins after its start adds the frames before it.
        most = steps + 1 + ring.history
        return bool((ring.head + 1 + most - ring.rows > rows.first_B).any())

    def restore(self, segments: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the replay buffer. CheckpointError if a segment is missing or damaged."""
        try:
            _check_covered(segments, arrays["head"] + 1, self._buffer.ring.rows)
            for segment in segments:
                first_B = np.array(segment["first"])
                self._store.read(segment, partial(restore_rows, self._buffer, first_B))
            restore_state(self._buffer, arrays)
        except (CheckpointError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint's replay buffer cannot be restored ({error}): put its files back, or continue with an "
                "empty one by --checkpoint-replay none, which fills it anew before learning"
            ) from None
        self._segments = [dict(segment) for segment in segments]
        self._saved_B = self._buffer.ring.head.copy()


def _check_covered(segments: Sequence[Mapping[str, Any]], end_B: np.ndarray, rows: int) -> None:
    """CheckpointError unless the segments have all of the last `rows` rows before `end_B`, without a gap."""
    reached_B = np.maximum(0, end_B - rows)
    for segment in segments:
        if (np.array(segment["first"]) > reached_B).any():
            raise CheckpointError(f"rows before those of {segment['file']} are missing")
        reached_B = np.maximum(reached_B, segment["end"])
    if (reached_B < end_B).any() and (end_B > 1).any():
        raise CheckpointError("its newest rows are missing")
