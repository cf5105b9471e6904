"""What a host leaves behind when its process ends: the user code that it was running, and its stack at a crash.

Ray does not say how a process has ended. A host therefore writes both into a file without a name (`memfd_create`),
which is gone with the last process that has it open. If both are on one machine, the supervisor opens it as soon as Ray
has placed the host, and reads it after the host's end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os

from veldt.runtime import activity
from veldt.runtime.activity import Doing
from veldt.runtime.process_state import is_running

_MOST_OF_A_STACK = 1 << 16  # bytes


def write_record() -> int:
    """Called once in a host: makes it write its record. Returns the file's descriptor; -1 where there is no such file.

    The file has `activity`'s memory, and after it the stack that faulthandler writes when native code crashes.
    """
    if not hasattr(os, "memfd_create"):
        return -1
    descriptor = os.memfd_create("record")
    os.ftruncate(descriptor, activity.SIZE_OF_ROLE)
    activity.share(mmap.mmap(descriptor, activity.SIZE_OF_ROLE))
    os.lseek(descriptor, 0, os.SEEK_END)
    # Ray's own, which writes to the log of its worker, is replaced.
    faulthandler.enable(descriptor, all_threads=False)
    return descriptor


class HostRecord:
    """Reads the record of a process of this machine, also after its end.

    Args:
        pid, start: of the host (`process_state.start_of`).
        descriptor: returned by `write_record` in the host.
    """

    def __init__(self, pid: int, start: int, descriptor: int) -> None:
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK)
        if not is_running(pid, start):  # its number may have been given to another process before
            self.close()

    def doing(self) -> Doing | None:
        """Returns which user code the host ran at its end; None if it ran none, or if that is not known."""
        memory = self._read(activity.SIZE_OF_ROLE, 0)
        return activity.last(memoryview(memory)) if memory else None

    def crash(self) -> str:
        """Returns the stack at which native code crashed, below a line with the signal; "" if none did."""
        text = self._read(_MOST_OF_A_STACK, activity.SIZE_OF_ROLE).decode(errors="replace")
        return text.partition("\nExtension modules:")[0]

    def close(self) -> None:
        """Closes the file; the record is empty from then on."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _read(self, size: int, begin: int) -> bytes:
        return os.pread(self._file, size, begin) if self._file >= 0 else b""
