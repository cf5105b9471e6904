"""Files that grow a memory's copy on disk piece by piece: each is written once, and checkpoints refer to it.

    replay/rows-000004.safetensors

A checkpoint of a large memory of which little has changed since the last one is then little: what is new, and the names
of the segments that have the rest. A segment has a checksum, and is whole or refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veldt.errors import CheckpointError
from veldt.runs.files import explained, sync_directory
from veldt.runs.own_files import make_directory, remove_file, remove_own
from veldt.runs.own_names import OF_SHARD, SEGMENT
from veldt.runs.tensor_file import Pieces, header_digest, read_tensors, write_tensors

_PARTIAL = ".partial"


class SegmentStore:
    """The segments in directory `path` (made at the first write)."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def write(self, arrays: Mapping[str, np.ndarray | Pieces]) -> dict[str, Any]:
        """Writes a new segment and flushes it to the disk; returns its record (JSON), by which it is read.

        VeldtError when the disk refuses, UsageError where the directory is a link.
        """
        with explained("the replay buffer", self.path):
            make_directory(self.path)
            name = f"rows-{self._next_number():06d}.safetensors"
        partial = self.path / f"{name}{_PARTIAL}"
        with explained("the replay buffer", self.path / name):
            remove_file(partial)
            try:
                digest, size = write_tensors(partial, arrays)
                partial.rename(self.path / name)
                sync_directory(self.path)
            except BaseException:
                remove_file(partial)
                raise
        header = header_digest(self.path / name)
        return {"file": name, "sha256": digest, "size": size, "header": header}

    def read(self, record: Mapping[str, Any], on_read: Callable[[str, np.ndarray], None]) -> None:
        """Reads a segment array by array; CheckpointError where it is missing or not as it was written."""
        path = self.path / segment_name(record)
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise CheckpointError(f"{path} is a link, or no file")
            # Names and shapes are acted on as they are read, so they are looked at first.
            if found.st_size != record["size"] or header_digest(path) != record["header"]:
                raise CheckpointError(f"{path} was altered: its size or its header is not as it was written")
            read = read_tensors(path, on_read)
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from None
        if read != (record["sha256"], record["size"]):
            raise CheckpointError(f"{path} was altered: its checksum is not as it was written")

    def _next_number(self) -> int:
        """After all that are there, whichever checkpoint they belong to."""
        names = [SEGMENT.fullmatch(name) for name in os.listdir(self.path)]
        return 1 + max((int(match[1]) for match in names if match), default=0)

    def keep(self, names: set[str]) -> None:
        """Removes all segments but these, and what a killed process left of one; UsageError for a link to elsewhere."""
        remove_own(self.path, OF_SHARD, keep=names)


def segment_name(record: Mapping[str, Any]) -> str:
    """The file that a segment's record names; CheckpointError unless it is called as segments are."""
    name = record["file"]
    if not isinstance(name, str) or not SEGMENT.fullmatch(name):
        raise CheckpointError(
            f"it names a segment of the replay buffer {name!r}, and veldt calls them rows-000001.safetensors and so on"
        )
    return name
