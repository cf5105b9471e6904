"""The segment files of a replay buffer on disk: each is written once, and checkpoints refer to it.

    replay/rows-000004.safetensors

So a checkpoint of a large replay buffer that has changed little is small: it writes the new rows, and names the
segments with the other rows. A segment has a checksum, and is whole or refused.
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
        """Writes a new segment and flushes it to the disk; returns its record (JSON), which `read` takes.

        VeldtError if the disk refuses, UsageError if the directory is a link.
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
        """Reads a segment array by array; CheckpointError if it is missing or was altered."""
        path = self.path / segment_name(record)
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise CheckpointError(f"{path} is a link, or no file")
            # The reader uses names and shapes before the whole checksum is known, so the header is checked first.
            if found.st_size != record["size"] or header_digest(path) != record["header"]:
                raise CheckpointError(f"{path} was altered: its size or its header is not as it was written")
            read = read_tensors(path, on_read)
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing") from None
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from None
        if read != (record["sha256"], record["size"]):
            raise CheckpointError(f"{path} was altered: its checksum is not as it was written")

    def _next_number(self) -> int:
        """Returns a number higher than all existing ones, whichever checkpoint they belong to."""
        names = [SEGMENT.fullmatch(name) for name in os.listdir(self.path)]
        return 1 + max((int(match[1]) for match in names if match), default=0)

    def keep(self, names: set[str]) -> None:
        """Removes all segments except `names`, and partial files of killed processes; UsageError for a link."""
        remove_own(self.path, OF_SHARD, keep=names)


def segment_name(record: Mapping[str, Any]) -> str:
    """Returns the file name in a segment's record; CheckpointError if it is not a name that veldt gives."""
    name = record.get("file")
    if not isinstance(name, str) or not SEGMENT.fullmatch(name):
        raise CheckpointError(
            f"it names a segment of the replay buffer {name!r}, and veldt calls them rows-000001.safetensors and so on"
        )
    return name
