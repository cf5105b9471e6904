"""The user's own code, remembered outside of runs: what `train` and `resume` have imported by name on this machine.

The file is `veldt/trusted.jsonl` in `$XDG_STATE_HOME` (`~/.local/state`), one JSON object a line. A run that names the
same function with the same keyword arguments, which would be imported from the same files, needs nobody's consent. What
this process has trained with is known to it even where nothing can be written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from veldt.user_code.import_path import split_name
from veldt.user_code.module_files import find_module


@dataclass(frozen=True)
class Code:
    """A function that is imported by name, and what it is called with; `files` as in `ModuleFiles`."""

    kind: Literal["env", "network"]
    name: str
    kwargs: str
    files: tuple[str, ...]


_of_this_process: set[Code] = set()


def find_code(
    kind: Literal["env", "network"], name: str, kwargs: Mapping[str, Any], module: str | None = None
) -> Code | None:
    """What would be imported now; None if there is no such module. Nothing is imported.

    Args:
        module: where that is not what `name` begins with.
    """
    found = find_module(module or split_name(name, kind)[0])
    if found is None:
        return None
    as_read = json.loads(json.dumps(kwargs))  # keys of several types cannot be sorted
    return Code(kind, name, json.dumps(as_read, sort_keys=True), found.files)


def is_remembered(code: Code) -> bool:
    """Whether the user has trained with just this code here."""
    if code in _of_this_process:
        return True
    try:
        return code in _read(_file())
    except (OSError, RuntimeError):
        return False


def remember(codes: Iterable[Code]) -> str | None:
    """Adds code that the user trains with; a sentence about it where that cannot be written, else None."""
    codes = set(codes)
    _of_this_process.update(codes)
    try:
        path = _file()
        if new := codes - _read(path):
            _append(path, new)
    except (OSError, RuntimeError) as error:
        names = " and ".join(sorted(code.name for code in codes))
        return (
            f"cannot write down that {names} is your own code ({error}): veldt resume, evaluate, watch and "
            "record-starts will ask for --trust"
        )
    return None


def _file() -> Path:
    """RuntimeError where the user has no home directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification has a relative path ignored.
    place = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return place / "veldt" / "trusted.jsonl"


def _read(path: Path) -> set[Code]:
    """The lines of the file; none if it is not there. Damaged ones are left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return set()
    found = set()
    for line in lines:
        try:
            values = json.loads(line)
            found.add(Code(values["kind"], values["name"], values["kwargs"], tuple(values["files"])))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _append(path: Path, codes: Iterable[Code]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = "".join(json.dumps(asdict(code)) + "\n" for code in sorted(codes, key=lambda code: code.kind))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        # In one call, so that lines of several processes do not mix.
        os.write(descriptor, ("\n" * torn + lines).encode())
    finally:
        os.close(descriptor)
