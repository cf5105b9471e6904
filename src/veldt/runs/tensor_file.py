"""Writes and reads arrays in the safetensors format as a stream, with a checksum computed on the way.

The library's own writer needs a second copy of everything (or hides a full disk behind its own error), and its output
would have to be read again for the checksum; its reader holds a whole file in memory. For a replay buffer of many
gigabytes this is too much. The format is simple: an 8-byte little-endian length, a JSON header, the raw little-endian
arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from veldt.runs.files import write_all

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "complex64": "C64", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
_DTYPES = {code: np.dtype(name).newbyteorder("<") for name, code in _NAMES.items()}

# One array, in consecutive parts.
Pieces = Sequence[np.ndarray]


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray | Pieces]) -> tuple[str, int]:
    """Writes `arrays` (any shape, also of size zero) to the new file `path`; returns (SHA-256 in hex, bytes).

    An array may be given in pieces, which are concatenated along their first axis. The data is on the disk, not only in
    the page cache, when this returns. TypeError for a dtype that safetensors does not have, OSError as the operating
    system raises it.
    """
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for chunk in _chunks(arrays):
            digest.update(chunk)
            write_all(descriptor, chunk)
            size += len(chunk)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return digest.hexdigest(), size


def header_digest(path: Path) -> str:
    """Returns the SHA-256 in hex of the file's header. OSError as the operating system raises it."""
    with path.open("rb") as file:
        length = file.read(8)
        size = min(int.from_bytes(length, "little"), path.stat().st_size)
        return hashlib.sha256(length + file.read(size)).hexdigest()


def read_tensors(path: Path, on_read: Callable[[str, np.ndarray], None]) -> tuple[str, int]:
    """Reads the file `path` array by array; returns (SHA-256 in hex, bytes), which the caller compares.

    `on_read` receives each name and array (not reused afterwards), before the file is known to be whole. ValueError if
    it is not in this format, OSError as the operating system raises it.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        length = file.read(8)
        text = file.read(int.from_bytes(length, "little"))
        digest.update(length + text)
        header = json.loads(text)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            array = np.empty(entry["shape"], _DTYPES[entry["dtype"]])
            view = array.reshape(-1).view(np.uint8).data
            if file.readinto(view) != array.nbytes:
                raise ValueError(f"it ends inside the array {name}")
            digest.update(view)
            on_read(name, array)
        if rest := file.read(1):
            digest.update(rest)
        return digest.hexdigest(), file.tell()


def _chunks(arrays: Mapping[str, np.ndarray | Pieces]) -> Iterator[bytes | memoryview]:
    header, offset, ordered = {}, 0, []
    for name, given in arrays.items():
        pieces = [given] if isinstance(given, np.ndarray) else given
        dtype = pieces[0].dtype
        if dtype.name not in _NAMES:
            raise TypeError(f"array {name!r} has dtype {dtype}, which a safetensors file cannot hold")
        # Widest first, as the library does: then every array is aligned to its own item size.
        ordered.append((-dtype.itemsize, name, pieces))
    ordered.sort(key=lambda entry: entry[:2])
    for _, name, pieces in ordered:
        size = sum(piece.nbytes for piece in pieces)
        shape = list(pieces[0].shape)
        if len(pieces) > 1:
            shape[0] = sum(len(piece) for piece in pieces)
        dtype_name = _NAMES[pieces[0].dtype.name]
        header[name] = {"dtype": dtype_name, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, _, pieces in ordered:
        for array in pieces:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            # Copies one array at a time, and only if it is not contiguous.
            yield np.ascontiguousarray(little).reshape(-1).view(np.uint8).data
