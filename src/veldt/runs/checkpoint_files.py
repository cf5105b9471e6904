"""Writes the files of one checkpoint directory with checksums, and refuses to load files that do not match."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veldt.errors import NOT_AS_STORED, CheckpointError
from veldt.runs import strict_json
from veldt.runs.files import open_to_read, read_file, sync_directory, write_new_file
from veldt.runs.own_names import GROUP, MANIFEST
from veldt.runs.tensor_file import write_tensors

FORMAT = 1
_SHOWN = 200  # characters of a message about somebody else's value


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint in memory.

    `step` counts agent steps, `meta` is JSON, `groups` maps group name ("weights", "optimiser", ...) to arrays by
    name, and `score` is the score given to `save`.
    """

    step: int
    path: Path
    meta: dict[str, Any]
    groups: dict[str, dict[str, np.ndarray]]
    score: float | None = None


def write_checkpoint(
    directory: Path,
    step: int,
    groups: Mapping[str, Mapping[str, np.ndarray]],
    meta: Mapping[str, Any],
    score: float | None,
) -> None:
    """Writes the files of a checkpoint into the existing empty `directory` and flushes them to the disk.

    The manifest is written last. OSError as the operating system raises it.
    """
    files = {}
    for group, arrays in groups.items():
        name = f"{group}.safetensors"
        if not GROUP.fullmatch(name):
            raise ValueError(f"group {group!r} cannot be a file name: use letters, digits, '_' and '-'")
        digest, size = write_tensors(directory / name, arrays)
        files[name] = {"sha256": digest, "size": size}
    scored = float(score) if score is not None and math.isfinite(score) else None
    manifest = {
        "format": FORMAT,
        "step": step,
        "score": scored,
        "meta": strict_json.plain(meta),
        "files": files,
    }
    text = json.dumps({**manifest, "sha256": _checksum(manifest)}, indent=1)
    write_new_file(directory / MANIFEST, text.encode())
    sync_directory(directory)


def load_checkpoint(directory: Path) -> Checkpoint:
    """Loads the checkpoint in `directory` and verifies sizes and checksums; CheckpointError names the bad file."""
    manifest = read_manifest(directory)
    groups = {}
    for name, expected in manifest["files"].items():
        verify_file(directory / name, expected)
        groups[Path(name).stem] = read_arrays(directory / name)
    meta = strict_json.restored(manifest["meta"])
    return Checkpoint(manifest["step"], directory, meta, groups, manifest["score"])


@contextlib.contextmanager
def restoring(checkpoint: Checkpoint | None) -> Iterator[None]:
    """In a block that restores a run's state, raises CheckpointError where a value is not what veldt stores there.

    A checksum only proves that a checkpoint is as it was written, not that veldt wrote it. Without a checkpoint the
    block restores nothing, and its errors pass through.
    """
    try:
        yield
    except NOT_AS_STORED as error:
        if checkpoint is None:
            raise
        raise CheckpointError(
            f"{checkpoint.path} does not hold what this run's checkpoints hold ({type(error).__name__}: "
            f"{str(error)[:_SHOWN]}): it was not written by veldt, or by another version; remove it, and resume from "
            "an older one"
        ) from error


def read_manifest(directory: Path) -> dict[str, Any]:
    """Reads and verifies the manifest of the checkpoint in `directory`; CheckpointError if there is no valid one."""
    path = directory / MANIFEST
    try:
        manifest = strict_json.loads_plain(read_file(path))
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read ({error.strerror}): the checkpoint is incomplete"
        ) from error
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: it is not JSON ({error})") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise CheckpointError(f"{path} is not the manifest of a veldt checkpoint: it has no format number")
    if manifest["format"] > FORMAT:
        raise CheckpointError(
            f"{path} was written by a newer veldt (checkpoint format {manifest['format']}, this one reads up to "
            f"{FORMAT}): upgrade veldt to load it"
        )
    if manifest.pop("sha256", None) != _checksum(manifest):
        raise CheckpointError(f"{path} was altered: its checksum does not match its content")
    if not _has_its_types(manifest):
        raise CheckpointError(
            f"{path} was not written by veldt: its step, score, meta or files are not of the types that veldt writes"
        )
    if not all(GROUP.fullmatch(name) for name in manifest["files"]):
        raise CheckpointError(
            f"{path} names files that are not part of a checkpoint: {sorted(manifest['files'])}"
        )
    return manifest


def _has_its_types(manifest: dict[str, Any]) -> bool:
    """Whether the values have the types that `write_checkpoint` gives them: the step, for example, names a video."""
    step, score, files = (manifest.get(name) for name in ("step", "score", "files"))
    return (
        type(step) is int
        and step >= 0
        and (score is None or type(score) in (int, float))
        and isinstance(manifest.get("meta"), dict)
        and isinstance(files, dict)
        and all(
            isinstance(file, dict) and type(file.get("size")) is int and isinstance(file.get("sha256"), str)
            for file in files.values()
        )
    )


def _checksum(manifest: dict[str, Any]) -> str:
    # The checksum covers the content, not the text, so that it can be stored in the same file.
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def verify_file(path: Path, expected: Mapping[str, Any]) -> None:
    """CheckpointError if the file does not have the `size` and the `sha256` in `expected`."""
    try:
        size = path.stat().st_size
        if size != expected["size"]:
            how = "truncated" if size < expected["size"] else "altered"
            raise CheckpointError(f"{path} is {how}: it has {size:,} bytes instead of {expected['size']:,}")
        with open_to_read(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing from its checkpoint") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if digest != expected["sha256"]:
        raise CheckpointError(
            f"{path} was altered: its SHA-256 is {digest[:12]}..., not {expected['sha256'][:12]}..."
        )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a safetensors file by name; CheckpointError if it cannot be read."""
    # Imported here: only a resume or an evaluation needs it, and start-up time is measured.
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, OSError, MemoryError) as error:
        raise CheckpointError(f"{path} is not a safetensors file that can be read: {error}") from error
