"""Files that grow a memory's copy on disk piece by piece: each is written once, and checkpoints refer to it.

    replay/rows-000004.safetensors

A checkpoint of a large memory of which little has changed since the last one is then little: what is new, and the names
of the segments that have the rest. A segment has a checksum, and is whole or refused.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veldt.errors import CheckpointError
from veldt.runs.files import explained, sync_directory
from veldt.runs.tensor_file import Pieces, header_digest, read_tensors, write_tensors

_PARTIAL = ".partial"
_NAME = re.compile(r"rows-(\d+)\.safetensors")


class SegmentStore:
    """The segments in directory `path` (made at the first write)."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def write(self, arrays: Mapping[str, np.ndarray | Pieces]) -> dict[str, Any]:
        """Writes a new segment and flushes it to the disk; returns its record (JSON), by which it is read.

        VeldtError when the disk refuses.
        """
        name = f"rows-{self._next_number():06d}.safetensors"
        partial = self.path / f"{name}{_PARTIAL}"
        with explained("the replay memory", self.path / name):
            self.path.mkdir(parents=True, exist_ok=True)
            partial.unlink(missing_ok=True)
            try:
                digest, size = write_tensors(partial, arrays)
                partial.rename(self.path / name)
                sync_directory(self.path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        header = header_digest(self.path / name)
        return {"file": name, "sha256": digest, "size": size, "header": header}

    def read(self, record: Mapping[str, Any], on_read: Callable[[str, np.ndarray], None]) -> None:
        """Reads a segment array by array; CheckpointError where it is missing or not as it was written."""
        path = self.path / str(record["file"])
        try:
            # Names and shapes are acted on as they are read, so they are looked at first.
            if path.stat().st_size != record["size"] or header_digest(path) != record["header"]:
                raise CheckpointError(f"{path} was altered: its size or its header is not as it was written")
            found = read_tensors(path, on_read)
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from None
        if found != (record["sha256"], record["size"]):
            raise CheckpointError(f"{path} was altered: its checksum is not as it was written")

    def _next_number(self) -> int:
        """After all that are there, whichever checkpoint they belong to."""
        names = [_NAME.fullmatch(path.name) for path in self.path.glob("rows-*")]
        return 1 + max((int(match[1]) for match in names if match), default=0)

    def keep(self, names: set[str]) -> None:
        """Removes all segments but these."""
        with contextlib.suppress(OSError):
            for path in self.path.iterdir():
                if path.name not in names:
                    path.unlink(missing_ok=True)
