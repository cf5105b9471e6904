"""Messages from a process that may be killed or stopped in the middle of one; the reader never blocks.

A message is its length, 8 bytes, and its content.
"""

from __future__ import annotations

import os

_LENGTH = 8
_AT_ONCE = 1 << 20


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
