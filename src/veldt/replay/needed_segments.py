"""Which files of the replay buffer the checkpoints need. Without numba, for the process that writes checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from veldt.errors import CheckpointError
from veldt.runs.own_names import SHARD
from veldt.runs.segments import SegmentStore, segment_name


def remove_unneeded(replay: Path, kept: Sequence[Mapping[str, Any]]) -> None:
    """Removes segments that no checkpoint with a `meta` in `kept` needs, from all parts of the buffer in `replay`.

    Directories with names that veldt does not give are left alone.
    """
    parts = [path for path in replay.iterdir() if SHARD.fullmatch(path.name)]
    for part in parts:
        SegmentStore(part).keep({name for meta in kept for name in _names(meta, part.name)})


def refuse_other_segments(meta: Mapping[str, Any]) -> None:
    """CheckpointError if a checkpoint's `meta` has segment names that veldt does not give (a path outside the run)."""
    parts = meta.get("segments", {})
    if not isinstance(parts, dict):
        raise CheckpointError(f"its segments of the replay buffer are {parts!r}")
    for shard, segments in parts.items():
        if not SHARD.fullmatch(shard):
            raise CheckpointError(
                f"it names a part of the replay buffer {shard!r}, and veldt calls them shard-0 or learner-0 and so on"
            )
        if not isinstance(segments, list) or not all(isinstance(segment, dict) for segment in segments):
            raise CheckpointError(f"its segments of {shard} are {segments!r}")
        for segment in segments:
            segment_name(segment)


def _names(meta: Mapping[str, Any], part: str) -> list[str]:
    """Returns the files of a part that a checkpoint needs; none where its `meta` is not as veldt writes it."""
    parts = meta.get("segments")
    segments = parts.get(part) if isinstance(parts, dict) else None
    if not isinstance(segments, list):
        return []
    names = (segment.get("file") for segment in segments if isinstance(segment, dict))
    return [name for name in names if isinstance(name, str)]
