"""Removes and overwrites only files that a run wrote, and never through a link.

Such a file is a regular file with a name that veldt gives (`own_names`), in the directory itself. Everything else in a
run, and everything that a link in it leads to, is the user's: veldt leaves it alone, or raises an error if it is in the
way. The run's directory itself may be reached through a link.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from veldt.errors import UsageError
from veldt.runs.own_names import IN_PLACE, OF_RUN, Names

_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}


def refuse_other(path: Path, kind: int = stat.S_IFREG) -> None:
    """UsageError if `path` exists and is not of `kind` (S_IFREG, S_IFDIR): a link is neither."""
    with contextlib.suppress(FileNotFoundError):
        found = stat.S_IFMT(path.lstat().st_mode)
        if found == stat.S_IFLNK:
            raise UsageError(
                f"{path} is a symbolic link, and veldt writes no {_KINDS[kind]} through one: put the {_KINDS[kind]} "
                "itself there, or remove the link"
            )
        if found != kind:
            raise UsageError(
                f"{path} is a {_KINDS.get(found, 'special file')}, and veldt writes a {_KINDS[kind]} of that name: "
                "move it elsewhere"
            )


def refuse_shared(path: Path) -> None:
    """UsageError if `path` is not a regular file, or has a second name (hard link): a write would change both."""
    refuse_other(path)
    with contextlib.suppress(FileNotFoundError):
        if path.lstat().st_nlink > 1:
            raise UsageError(
                f"{path} is a hard link, and veldt would change the file under its other name too: put a copy in its "
                f"place (cp {path.name} copy && mv copy {path.name})"
            )


def refuse_links(run: Path) -> None:
    """UsageError if anything that training would overwrite is not a regular file or directory written by veldt.

    Called before a run is resumed, so that a refused run stays unchanged.
    """
    _refuse_within(run, OF_RUN)
    for name in IN_PLACE:
        refuse_shared(run / name)


def make_directory(path: Path) -> None:
    """Makes the directory with its parents if it does not exist; UsageError if it is a link or a file."""
    refuse_other(path, stat.S_IFDIR)
    path.mkdir(parents=True, exist_ok=True)


def open_in_place(path: Path, flags: int) -> int:
    """Opens the regular file `path`, made if needed, to be changed in place; UsageError for anything else."""
    refuse_shared(path)
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def open_new(path: Path) -> int:
    """Opens the new file `path`, replacing one that a killed process left; UsageError for a link."""
    remove_file(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def remove_file(path: Path) -> None:
    """Removes what a killed process or a failed write left at `path`; UsageError for a link or a directory."""
    refuse_other(path)
    path.unlink(missing_ok=True)


def remove_own(directory: Path, names: Names, keep: Collection[str] = ()) -> None:
    """Removes regular files with `names.files` in the directory, except those in `keep`.

    Subdirectories, and files that cannot be removed, are left alone. UsageError if the directory is a link.
    """
    refuse_other(directory, stat.S_IFDIR)
    with contextlib.suppress(OSError), _opened(directory) as descriptor:
        for name in os.listdir(descriptor):
            if name not in keep and names.files.fullmatch(name) and _is_file(name, descriptor):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=descriptor)


def remove_own_tree(directory: Path, names: Names) -> None:
    """Removes all files with `names`, and then every empty directory, `directory` included."""
    for path, inner in _inner(directory, names):
        if path.is_dir() and not path.is_symlink():
            remove_own_tree(path, inner)
    remove_own(directory, names)
    with contextlib.suppress(OSError):
        directory.rmdir()


def foreign(directory: Path, names: Names) -> list[str]:
    """Returns the sorted names of entries in the directory that are not regular files with `names.files`."""
    with _opened(directory) as descriptor:
        return sorted(
            name
            for name in os.listdir(descriptor)
            if not (names.files.fullmatch(name) and _is_file(name, descriptor))
        )


def is_own(directory: Path, names: Names) -> bool:
    """Whether this is a directory, not a link, that contains only regular files with `names.files`."""
    try:
        return not foreign(directory, names)
    except OSError:
        return False


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """Opens the directory: names are then looked up in it, even if its path changes meanwhile."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_file(name: str, directory: int) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def _inner(directory: Path, names: Names) -> Iterator[tuple[Path, Names]]:
    """Yields entries with the name of a subdirectory that veldt makes there, and the names inside."""
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(directory)):
            for pattern, inner in names.directories:
                if pattern.fullmatch(name):
                    yield directory / name, inner


def _refuse_within(directory: Path, names: Names) -> None:
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(directory)):
            if names.files.fullmatch(name):
                refuse_other(directory / name)
    for path, inner in _inner(directory, names):
        refuse_other(path, stat.S_IFDIR)
        _refuse_within(path, inner)
