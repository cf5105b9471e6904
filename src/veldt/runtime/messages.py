"""Rare messages between processes: a JSON header and raw arrays, no pickle.

On a pipe, a message is its length, 8 bytes, and its content. Its writer may be killed or stopped in the middle of one;
the reader never blocks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

_LENGTH = 8
_AT_ONCE = 1 << 20


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Packs `header` (JSON) and named arrays of plain dtypes into one message."""
    # (`ascontiguousarray` would turn a scalar into a vector.)
    arrays = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    schema = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
    head = json.dumps({"header": header, "arrays": schema}).encode()
    return b"".join([len(head).to_bytes(8, "little"), head, *(array.tobytes() for array in arrays.values())])


def unpack(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the header and the arrays of a message."""
    end = 8 + int.from_bytes(message[:8], "little")
    head = json.loads(message[8:end])
    arrays = {}
    for name, (dtype, shape) in head["arrays"].items():
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(message, dtype, count, end).reshape(shape)
        end += arrays[name].nbytes
    return head["header"], arrays


def write_message(descriptor: int, message: bytes) -> None:
    """Writes a message; blocks while the reader is behind. OSError if the reader is gone."""
    for part in (len(message).to_bytes(_LENGTH, "little"), message):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


class Inbox:
    """The reader's end of a descriptor, which it makes non-blocking."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor, self._buffer = descriptor, bytearray()

    def messages(self) -> list[bytes]:
        """Returns the messages that were completed since the last call."""
        while self._read():
            pass
        whole = []
        while (end := self._end_of_first()) is not None:
            whole.append(bytes(self._buffer[_LENGTH:end]))
            del self._buffer[:end]
        return whole

    def _read(self) -> bool:
        """Reads the available data; returns False if there is none."""
        try:
            data = os.read(self._descriptor, _AT_ONCE)
        except OSError:  # no data now, or the pipe has failed
            return False
        self._buffer += data
        return bool(data)

    def _end_of_first(self) -> int | None:
        """Returns the end of the first message in the buffer, if the message is complete."""
        if len(self._buffer) < _LENGTH:
            return None
        end = _LENGTH + int.from_bytes(self._buffer[:_LENGTH], "little")
        return end if len(self._buffer) >= end else None
