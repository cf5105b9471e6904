"""Removes what a killed run has left in the directories of temporary files and of shared memory.

Where every process of a run is killed at once, nobody is left to remove the folder of its fork servers' sockets
(`pymp-*`), that of its own Ray (`veldt-ray-*`) and the names of its semaphores (`/dev/shm/sem.mp-*`). So they carry a
mark, which says whose they are: the machine since its start, and the process. Without a mark, or with that of a living
process or of another machine, nothing is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from veldt.runtime.fork_server.socket_folder import make_folder, parent_of_sockets
from veldt.runtime.process_state import is_running, start_of

_FOLDERS, _SEMAPHORES = "pymp-*", "sem.mp-veldt.*"
_MARK = re.compile(r"veldt\.([0-9a-f]{8})\.(\d+)\.(\d+)")  # machine, process id, start
_UNMARKED = "/mp"  # the beginning of semaphores' names in `multiprocessing`
_SHARED_MEMORY = Path("/dev/shm")  # where Linux has semaphores


def mark_own() -> None:
    """Marks the folder of this process's sockets, and the semaphores that it and its children make from now on.

    Does nothing in a child, which shares both with its parent, and where the system does not have them as files.
    """
    config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if config.get("semprefix") != _UNMARKED:
        return
    folder = make_folder(config)
    if _machine() is not None:
        config["semprefix"] = f"{_UNMARKED}-{own_mark()}"
        mark_folder(folder)


def leave_to_parent() -> None:
    """Called in a process forked from one that has marked its own: it makes a folder of its own, if it needs one."""
    config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if config.get("semprefix", _UNMARKED) != _UNMARKED:
        config.pop("tempdir", None)
        config["semprefix"] = _UNMARKED


def mark_folder(folder: Path) -> None:
    """Marks a folder of temporary files as this process's, where the system has such marks."""
    if _machine() is not None:
        (folder / own_mark()).touch()


def own_mark() -> str:
    """Returns the mark of this process. Where the system does not say which machine this is, it is no orphan's mark."""
    return f"veldt.{_machine()}.{os.getpid()}.{start_of(os.getpid())}"


def remove_orphans(folders: Path | None = None, semaphores: Path = _SHARED_MEMORY) -> None:
    """Removes folders and semaphores of this user whose mark is of a process of this machine that has ended."""
    if _machine() is None:
        return
    with contextlib.suppress(FileNotFoundError):  # no directory of temporary files can be written
        remove_orphaned_folders(folders or parent_of_sockets(), _FOLDERS)
    for semaphore in own_paths(semaphores, _SEMAPHORES):
        if semaphore.is_file() and is_orphan(semaphore.name.removeprefix("sem.mp-").rpartition("-")[0]):
            with contextlib.suppress(OSError):
                semaphore.unlink()


def remove_orphaned_folders(parent: Path, pattern: str) -> None:
    """Removes this user's folders of the `pattern` whose marks are of processes of this machine that have ended."""
    if _machine() is None:
        return
    for folder in own_paths(parent, pattern):
        marks = [path.name for path in folder.glob("veldt.*")] if folder.is_dir() else []
        if marks and all(is_orphan(mark) for mark in marks):
            shutil.rmtree(folder, ignore_errors=True)


def own_paths(directory: Path, pattern: str) -> Iterator[Path]:
    """Yields what this user owns of a directory; no links."""
    for path in directory.glob(pattern):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.geteuid() and not path.is_symlink():
                yield path


def is_orphan(mark: str) -> bool:
    """Whether this is the mark of a process of this machine that has ended."""
    known = _MARK.fullmatch(mark)
    return known is not None and known[1] == _machine() and not is_running(int(known[2]), int(known[3]))


@cache
def _machine() -> str | None:
    """Returns what tells process ids of this machine, since its start, from those of others and of other containers,
    which may have the same directories; None where the system does not say."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text()
        container = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None
    return hashlib.sha256(f"{start} {container}".encode()).hexdigest()[:8]
