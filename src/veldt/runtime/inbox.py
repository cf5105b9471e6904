"""Messages from a process that may be killed or stopped in the middle of one: whoever reads them is never held up.

Each is its length, 8 bytes, and its content.
"""

from __future__ import annotations

import os

_LENGTH = 8
_AT_ONCE = 1 << 20


def write_message(descriptor: int, message: bytes) -> None:
    """Writes a message, and waits while the reader is behind. OSError where it is gone."""
    for part in (len(message).to_bytes(_LENGTH, "little"), message):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


class Inbox:
    """The reader's end, of a descriptor that it makes non-blocking."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor, self._buffer = descriptor, bytearray()

    def messages(self) -> list[bytes]:
        """Those that have come as a whole since the last call."""
        while self._read():
            pass
        whole = []
        while (end := self._end_of_first()) is not None:
            whole.append(bytes(self._buffer[_LENGTH:end]))
            del self._buffer[:end]
        return whole

    def _read(self) -> bool:
        """Takes what is there; False when that is nothing."""
        try:
            data = os.read(self._descriptor, _AT_ONCE)
        except OSError:  # nothing now, or nothing any more
            return False
        self._buffer += data
        return bool(data)

    def _end_of_first(self) -> int | None:
        """Where the first message ends, if it is there as a whole."""
        if len(self._buffer) < _LENGTH:
            return None
        end = _LENGTH + int.from_bytes(self._buffer[:_LENGTH], "little")
        return end if len(self._buffer) >= end else None
