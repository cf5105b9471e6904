"""Writes files whole or not at all, even if the disk is full or the process is killed, with clear errors.

Two ways to write: `write_atomically` replaces a file, `AppendFile` adds whole records to the end of one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from veldt import formatting
from veldt.errors import UsageError, VeldtError
from veldt.runs import strict_json
from veldt.runs.own_files import open_in_place, open_new, refuse_other

# A file that is larger was not written by veldt; reading it would only fill the memory.
_LONGEST_FILE = 64 << 20  # of one that is read as a whole
_LONGEST_LINES = 4 << 30  # of JSON lines together
_LONGEST_LINE = 16 << 20
_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}


_RESUME = "resume the run if it has a checkpoint (what was written before is intact), or else train again"


def says_full(sentence: str) -> bool:
    """Returns whether a sentence of `explained` says that there is no room on the disk."""
    return any(why in sentence for why in _FULL.values())


@contextlib.contextmanager
def explained(what: str, path: Path, then: str = _RESUME, *, instead: str = "") -> Iterator[None]:
    """Converts an OSError of the block to a VeldtError that says what was written, where, and how to mend it: `then`
    is what to do when there is room, and `instead`, if there is such a way, what to do where `path` cannot be
    written."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise VeldtError(
                f"cannot write {what} to {path}: {_FULL[error.errno]} ({free_space(path)} free there); "
                f"make room or use another disk, then {then}"
            ) from error
        mend = f"; {instead}" if instead else ""
        raise VeldtError(f"cannot write {what} to {path}: {error.strerror or error}{mend}") from error


def refuse_missing_directory(path: Path) -> None:
    """Raises UsageError if the directory of the file `path`, which the user has named by --out, does not exist."""
    if not path.parent.is_dir():
        raise UsageError(f"--out {path}: there is no directory {path.parent}; make it, or name another file")


def from_here(path: Path, place: Path) -> Path:
    """Returns `path` if it leads to the absolute path `place`, else `place`: an environment of this process may have
    changed the working directory since `place` was made of `path`."""
    with contextlib.suppress(FileNotFoundError):  # the working directory has been removed
        if path.absolute() == place:
            return path
    return place


def free_space(path: Path) -> str:
    """Returns how much an ordinary user can still write on the disk of `path` (which need not exist yet)."""
    for ancestor in (path, *path.parents):
        with contextlib.suppress(OSError):
            return formatting.size(shutil.disk_usage(ancestor).free)
    return "an unknown amount"


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Writes all of `data`, in as many calls as the operating system needs."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(path: Path) -> None:
    """Makes renames inside the directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new_file(path: Path, data: bytes) -> None:
    """Writes the new file `path` and flushes it to the disk, replacing one that a killed process left.

    UsageError for a link, OSError as the operating system raises it.
    """
    descriptor = open_new(path)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes, what: str, then: str = _RESUME) -> None:
    """Replaces `path` by `data`; readers see the old file or the new one. `what` and `then` are as for `explained`.

    UsageError if `path` is a link or not a file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with explained(what, path, then):
        refuse_other(path)
        try:
            write_new_file(temporary, data)
            temporary.replace(path)
            sync_directory(path.parent)
        except BaseException:
            # Removed before the free space is measured for the error message.
            temporary.unlink(missing_ok=True)
            raise


class AppendFile:
    """A file that grows by whole records; a record that did not fit on the disk is removed again.

    Nothing is buffered in the process, so a record is safe from `kill -9` once `append` returns. `what` names the
    content in the VeldtError of a failed write. `size` is the length in bytes. UsageError if `path` is a symbolic or
    hard link, or not a file.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path, self._what = path, what
        with explained(what, path):
            self._descriptor = open_in_place(path, os.O_RDWR | os.O_APPEND)
            self.size = os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        """Adds one record, or raises VeldtError and leaves the file as it was."""
        with explained(self._what, self.path):
            try:
                write_all(self._descriptor, data)
            except OSError:
                os.ftruncate(self._descriptor, self.size)
                raise
        self.size += len(data)

    def truncate(self, size: int) -> None:
        """Cuts the file back to `size` bytes (a larger `size` changes nothing)."""
        if size < self.size:
            with explained(self._what, self.path):
                os.ftruncate(self._descriptor, size)
            self.size = size

    def drop_torn_line(self) -> None:
        """Removes what follows the last newline, so that the next line is not appended to a torn one.

        UsageError if that is longer than any line: the file is damaged, and its content may be of use to somebody.
        """
        end = self.size
        while end > 0:
            if self.size - end > _LONGEST_LINE:
                raise UsageError(
                    f"{self.path} is damaged: its last {formatting.size(_LONGEST_LINE)} have no end of a line; move it "
                    "elsewhere"
                )
            start = max(0, end - 65536)
            newline = os.pread(self._descriptor, end - start, start).rfind(b"\n")
            if newline >= 0:
                self.truncate(start + newline + 1)
                return
            end = start
        self.truncate(0)

    def sync(self) -> None:
        """Makes everything appended so far survive a power cut."""
        with explained(self._what, self.path):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file; closing twice is allowed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_to_read(path: Path, longest: int | None = None) -> BufferedReader:
    """Opens a regular file, which may be reached through a link. OSError for anything else.

    A pipe would be waited for without end, and a device may have no end.

    Args:
        longest: bytes that the file may have; None: as many as it has.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if longest is not None and found.st_size > longest:
        file.close()
        raise OSError(errno.EFBIG, f"it is larger than {formatting.size(longest)}", str(path))
    return file


def read_file(path: Path, longest: int = _LONGEST_FILE) -> bytes:
    """Returns the content of a regular file of at most `longest` bytes; OSError as for `open_to_read`."""
    with open_to_read(path, longest) as file:
        return file.read()


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of a JSON-lines file; none if the file does not exist. UsageError if it cannot be read.

    Skips lines that are not a JSON object: the last line is torn if its writer was killed, and a power cut can leave a
    block of zeros.
    """
    rows = []
    try:
        with open_to_read(path, _LONGEST_LINES) as file:
            while line := file.readline(_LONGEST_LINE):
                with contextlib.suppress(ValueError):
                    row = strict_json.loads(line)
                    if isinstance(row, dict):
                        rows.append(row)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return rows
