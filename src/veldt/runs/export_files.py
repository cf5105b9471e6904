"""The directory of an export: written whole or not at all, and replaced only if `export` wrote all that is in it."""

from __future__ import annotations

import contextlib
import glob
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veldt.errors import UsageError
from veldt.runs import strict_json
from veldt.runs.files import explained, read_file, sync_directory
from veldt.runs.own_files import foreign, refuse_other, remove_own_tree
from veldt.runs.own_names import CONFIG, EXPORT_FORMAT, OF_EXPORT
from veldt.runtime.orphans import is_orphan, own_mark, own_paths

# Ends of the names, after the mark of the process, of an export that is being written and of one that it replaces.
_PARTIAL, _OLD = ".partial", ".old"


def read_export_config(path: Path) -> dict[str, Any] | None:
    """Returns the config.json of the export in `path`; None if there is no export."""
    with contextlib.suppress(OSError, ValueError):
        values = strict_json.loads(read_file(path / CONFIG))
        if isinstance(values, dict) and EXPORT_FORMAT in values:
            return values
    return None


def is_export(path: Path) -> bool:
    """Whether `path` is a directory that `export` wrote."""
    return read_export_config(path) is not None


def refuse_place(out: Path) -> None:
    """Raises UsageError if no export can be written to `out`: called before anything is played.

    An older export may be replaced, but nothing else that is there.
    """
    if out.name in ("", ".."):
        raise UsageError(f"--out is '{out}': give the name of a directory to make")
    if not out.parent.is_dir():
        raise UsageError(
            f"--out {out}: there is no directory {out.parent}; make it, or name another directory"
        )
    refuse_other(out, stat.S_IFDIR)
    if not out.is_dir():
        return
    if not is_export(out):
        raise UsageError(
            f"--out {out} exists already, and veldt export did not write it: name a new directory"
        )
    if others := foreign(out, OF_EXPORT):
        raise UsageError(
            f"--out {out} has {others[0]} in it, which veldt export did not write and would remove: move it elsewhere, "
            "or name another directory"
        )


@contextlib.contextmanager
def new_export(out: Path) -> Iterator[Path]:
    """Yields an empty directory beside `out`, which takes its place when the block ends without an error.

    What killed processes have left beside `out` is removed: a former export only when there is a new one.

    Raises:
        UsageError: as for `refuse_place`.
        VeldtError: a file could not be written; what was at `out` is still there.
    """
    partial, old = (out.with_name(f".{out.name}.{own_mark()}{kind}") for kind in (_PARTIAL, _OLD))
    with explained("the export", out, "export again"):
        _remove_orphans(out, _PARTIAL)
        remove_own_tree(partial, OF_EXPORT)  # of an interrupted export of this process
        try:
            partial.mkdir()
            yield partial
            sync_directory(partial)
            refuse_place(out)
            if out.exists():
                out.rename(old)
            try:
                partial.rename(out)
            except BaseException:
                if old.exists():
                    old.rename(out)
                raise
            sync_directory(out.parent)
        except BaseException:
            # Removed before the free space is measured for the error message.
            remove_own_tree(partial, OF_EXPORT)
            raise
        remove_own_tree(old, OF_EXPORT)
        _remove_orphans(out, _OLD)


def _remove_orphans(out: Path, kind: str) -> None:
    """Removes the directories of a kind that killed exports to `out` have left."""
    prefix = f".{out.name}."
    with contextlib.suppress(OSError):  # the export does not depend on it
        for path in own_paths(out.parent, f"{glob.escape(prefix)}*{kind}"):
            mark = path.name.removeprefix(prefix).removesuffix(kind)
            if is_orphan(mark) and path.is_dir():
                remove_own_tree(path, OF_EXPORT)
