"""The record of trusted user code, kept outside of runs: what `train` and `resume` imported by name on this machine.

The file is `veldt/trusted.jsonl` in `$XDG_STATE_HOME` (`~/.local/state`), one JSON object per line. A run that names
the same function with the same keyword arguments, importable from the same files, needs no consent. Code that this
process has trained with is also kept in the process, in case the file cannot be written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from veldt.user_code.import_path import split_name
from veldt.user_code.module_files import find_module


@dataclass(frozen=True)
class Code:
    """A function, or a plug-in's module, that is imported by name; `files` as in `ModuleFiles`.

    `kind` is what it is for: "env", "plugin", or a part of a network, as in `networks.own`.
    """

    kind: str
    name: str
    kwargs: str
    files: tuple[str, ...]


_of_this_process: set[Code] = set()


def find_code(kind: str, name: str, kwargs: Mapping[str, Any], module: str | None = None) -> Code | None:
    """Returns what would be imported now, without importing it; None if there is no such module.

    Args:
        module: the module, if it is not the one in `name`.
    """
    found = find_module(split_name(name, kind)[0] if module is None else module)
    if found is None:
        return None
    as_read = json.loads(json.dumps(kwargs))  # keys of different types cannot be sorted
    return Code(kind, name, json.dumps(as_read, sort_keys=True), found.files)


def is_remembered(code: Code) -> bool:
    """Whether the user has trained with exactly this code on this machine."""
    if code in _of_this_process:
        return True
    try:
        return code in _read(_file())
    except (OSError, RuntimeError):
        return False


def remember(codes: Iterable[Code]) -> str | None:
    """Records code that the user trains with. Returns a sentence if that cannot be written, else None."""
    if not (codes := set(codes)):
        return None
    _of_this_process.update(codes)
    try:
        path = _file()
        if new := codes - _read(path):
            _append(path, new)
    except (OSError, RuntimeError) as error:
        names = " and ".join(sorted(code.name for code in codes))
        return (
            f"cannot write down that {names} is your own code ({error}): commands that "
            "open this run, such as veldt resume, need --trust"
        )
    return None


def _file() -> Path:
    """Returns the path of the file; RuntimeError if the user has no home directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification requires a relative path to be ignored.
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return folder / "veldt" / "trusted.jsonl"


def _read(path: Path) -> set[Code]:
    """Returns the entries of the file; none if it does not exist. Skips damaged lines."""
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
        # One write call, so that lines of several processes do not mix.
        os.write(descriptor, ("\n" * torn + lines).encode())
    finally:
        os.close(descriptor)
