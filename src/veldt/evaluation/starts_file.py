"""The file format of starts: arrays as safetensors, with a JSON manifest and a checksum in the header."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veldt.errors import UsageError
from veldt.runs import strict_json
from veldt.runs.files import read_file, refuse_missing_directory, write_atomically

FORMAT = 1
STARTS_NAME = "starts.safetensors"  # the default name
_KEY = "veldt-starts"
_LONGEST = 1 << 30  # bytes; an action of an Atari game takes one
_RECORD = "`veldt record-starts RUN` makes one"


def check_new_file(path: Path) -> None:
    """Raises UsageError if a new file of starts cannot be created; called before anything is played."""
    if os.path.lexists(path):
        raise UsageError(
            f"--out {path} exists already, and scores may rest on it: name another file, or remove it"
        )
    refuse_missing_directory(path)


def write_starts_file(path: Path, arrays: Mapping[str, np.ndarray], manifest: Mapping[str, Any]) -> None:
    """Writes the file `path` atomically. Raises VeldtError if it cannot be written."""
    from safetensors.numpy import save

    ordered = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    plain = strict_json.plain({"format": FORMAT, **manifest})
    header = {_KEY: json.dumps(plain | {"sha256": _checksum(ordered, plain)})}
    write_atomically(path, save(ordered, metadata=header), "the starts", "record them again")


def read_starts_file(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Reads arrays and manifest of the file `path`. Raises UsageError if they are incomplete or damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not path.exists():
        raise UsageError(f"--starts {path}: there is no such file; {_RECORD}")
    if not path.is_file():
        raise UsageError(f"--starts {path} is not a file: name the file of starts; {_RECORD}")
    try:
        data = read_file(path, _LONGEST)
    except OSError as error:
        raise UsageError(f"--starts {path} cannot be read: {error.strerror or error}") from error
    if not data:
        raise UsageError(f"--starts {path} is empty: {_RECORD}")
    try:
        arrays = load(data)
        header = strict_json.loads_plain(data[8 : 8 + int.from_bytes(data[:8], "little")])
        manifest = strict_json.loads_plain(header["__metadata__"][_KEY])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--starts {path} is not a file of starts, or it is damaged: {_RECORD}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise UsageError(f"--starts {path} is not a file of starts: {_RECORD}")
    if manifest["format"] > FORMAT:
        raise UsageError(
            f"--starts {path} was written by a newer veldt (format {manifest['format']}, this one reads up to "
            f"{FORMAT}): upgrade veldt to use it"
        )
    if manifest.pop("sha256", None) != _checksum(arrays, manifest):
        raise UsageError(
            f"--starts {path} was altered or damaged: its checksum does not match its content; copy it again from "
            "where it came, or record new starts"
        )
    return arrays, strict_json.restored(manifest)


def _checksum(arrays: Mapping[str, np.ndarray], manifest: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
