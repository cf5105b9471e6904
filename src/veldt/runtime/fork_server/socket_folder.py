"""The folder of the sockets of a process and of its fork servers.

`multiprocessing` makes the folder among the temporary files, whose directory may have too long a path for a socket.
It removes the folder only where the process that made it ends by itself, so a fork server is told its folder and
removes it if the process that started the server was killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import util
from pathlib import Path
from typing import Any

from veldt.errors import UsageError

_VARIABLE, _PREFIX = "VELDT_SERVER_FOLDER", "pymp-"
# Bytes of the path of the directory with the folder: that of a socket, /pymp-xxxxxxxx/listener-xxxxxxxx in it, may have
# 103 on some systems.
_LONGEST = 70
_SHORT = Path("/tmp")
_PARENT_ENDS_S = 3.0
_maker: int | None = None  # the process that made the folder, which processes forked from it share


def parent_of_sockets(longest: int = _LONGEST) -> Path:
    """Returns the directory of temporary files, or /tmp where its path has more than `longest` bytes."""
    usual = tempfile.gettempdir()
    return Path(usual) if len(os.fsencode(usual)) <= longest else _SHORT


def make_folder(config: dict[str, Any]) -> Path:
    """Returns the folder for the sockets of the process with this `config`, which `multiprocessing` then uses.

    Raises UsageError where the path of the directory of temporary files is too long and /tmp cannot be used.
    """
    global _maker
    _maker = os.getpid()
    if not _removes(config.get("tempdir")):
        config.pop("tempdir", None)
    parent = parent_of_sockets()
    if config.get("tempdir") is None and parent != Path(tempfile.gettempdir()):
        try:
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        except OSError as error:
            raise UsageError(
                f"the path of the temporary directory {tempfile.gettempdir()} has more than {_LONGEST} bytes, too many "
                f"for the sockets of processes, and {parent} cannot be used ({error.strerror}): set TMPDIR to a "
                "directory with a shorter path"
            ) from error
        # As `multiprocessing` does for the folders that it makes: after everything else of the process's end.
        util.Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=-100)
        config["tempdir"] = folder
    return Path(util.get_temp_dir())


def _removes(folder: str | None) -> bool:
    """Whether this process removes `folder` at its end. Otherwise it is its parent's, whose configuration
    `multiprocessing` passes on: a process of a pool, say, that trains, must not take it away."""
    finalizers: list[Any] = list(util._finalizer_registry.values())  # type: ignore[attr-defined]
    return any(each._pid == os.getpid() and folder in each._args for each in finalizers)


@contextlib.contextmanager
def folder_known(folder: str) -> Iterator[None]:
    """Lets a server that is started meanwhile know its folder, and this process, if this process made the folder."""
    if os.getpid() != _maker:
        yield
        return
    os.environ[_VARIABLE] = f"{os.getpid()}:{folder}"
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def own_folder() -> str:
    """Called in a server: returns the text for `remove_if_left`, unknown to programs that an environment starts."""
    return os.environ.pop(_VARIABLE, "")


def remove_if_left(known: str) -> None:
    """Called at the end of a server: removes the folder if the process that started the server is gone.

    Otherwise that process removes it, and would fail if it were gone. A process that is killed is the parent for a
    moment after its end of the connection was closed, by which the server knows of its end.
    """
    starter, _, folder = known.partition(":")
    if not Path(folder).name.startswith(_PREFIX):
        return
    end = time.monotonic() + _PARENT_ENDS_S
    while starter == str(os.getppid()) and os.path.exists(folder) and time.monotonic() < end:
        time.sleep(0.01)
    if starter != str(os.getppid()):
        shutil.rmtree(folder, ignore_errors=True)
