"""Tells a fork server the folder of its socket, which the server removes if the process that started it was killed.

`multiprocessing` makes the folder among the temporary files, and removes it only where that process ends by itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_VARIABLE, _PREFIX = "VELDT_SERVER_FOLDER", "pymp-"


@contextlib.contextmanager
def folder_known(folder: str) -> Iterator[None]:
    """Lets a server that is started meanwhile know its folder, and this process."""
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

    Otherwise that process removes it, and would fail if it were gone.
    """
    starter, _, folder = known.partition(":")
    if folder and starter != str(os.getppid()) and Path(folder).name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
