"""The replay memory beside the checkpoints: each writes what is new in it, and names what it needs of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from veldt.errors import CheckpointError
from veldt.replay.memory import Replay
from veldt.replay.snapshot import oldest, restore_rows, restore_state, state, stored_rows
from veldt.runs.segments import SegmentStore


class ReplayArchive:
    """A memory's copy in directory `path`. Training pauses while new rows are copied, and never for older ones."""

    def __init__(self, path: Path, memory: Replay) -> None:
        self._store, self._memory = SegmentStore(path), memory
        self._saved_B = np.zeros_like(memory.ring.head)
        self._segments: list[dict[str, Any]] = []

    def save(self) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
        """Writes the rows that are new since the last time; returns the records of all segments, and the rest."""
        memory = self._memory
        if (memory.ring.head > self._saved_B).any():
            first_B = oldest(memory, self._saved_B)
            number = 1 + max((segment["number"] for segment in self._segments), default=0)
            record = self._store.write(number, stored_rows(memory, self._saved_B))
            rows = {"first": first_B.tolist(), "end": (memory.ring.head + 1).tolist()}
            self._segments = [*self._segments, record | rows]
            self._saved_B = memory.ring.head.copy()
        lost_B = memory.ring.head + 1 - memory.ring.rows
        self._segments = [segment for segment in self._segments if (np.array(segment["end"]) > lost_B).any()]
        return self._segments, state(memory)

    def restore(self, segments: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> None:
        """Fills the memory as it was. CheckpointError where something that was promised is not there, or damaged."""
        try:
            _check_covered(segments, arrays["head"] + 1, self._memory.ring.rows)
            for segment in segments:
                first_B = np.array(segment["first"])
                self._store.read(segment, partial(restore_rows, self._memory, first_B))
            restore_state(self._memory, arrays)
        except (CheckpointError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint's replay memory cannot be restored ({error}): put its files back, or go on with an "
                "empty one by --checkpoint-replay none, which fills it anew before learning"
            ) from None
        self._segments = [dict(segment) for segment in segments]
        self._saved_B = self._memory.ring.head.copy()


def needed_segments(kept: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names of the segments that checkpoints with these `meta` need."""
    return {segment["file"] for meta in kept for segment in meta.get("replay", [])}


def _check_covered(segments: Sequence[Mapping[str, Any]], end_B: np.ndarray, rows: int) -> None:
    """CheckpointError unless the segments have all of the last `rows` rows before `end_B`, with nothing between."""
    reached_B = np.maximum(0, end_B - rows)
    for segment in segments:
        if (np.array(segment["first"]) > reached_B).any():
            raise CheckpointError(f"rows before those of {segment['file']} are missing")
        reached_B = np.maximum(reached_B, segment["end"])
    if (reached_B < end_B).any() and (end_B > 1).any():
        raise CheckpointError("its newest rows are missing")
