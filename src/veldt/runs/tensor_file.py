"""Writes and reads arrays in the safetensors format as a stream, with a checksum computed on the way.

The library's own writer needs a second copy of everything (or hides a full disk behind its own error), and its output
would have to be read again for the checksum; its reader holds a whole file in memory. For a replay buffer of many
gigabytes this is too much. The format is simple: an 8-byte little-endian length, a JSON header, the raw little-endian
arrays.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from veldt.runs import strict_json
from veldt.runs.files import open_to_read, write_all

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "complex64": "C64", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
_DTYPES = {code: np.dtype(name).newbyteorder("<") for name, code in _NAMES.items()}
_MOST_AXES = 16
_TOO_MANY = 1 << 62  # bytes, or entries along an axis

# One array, in consecutive parts.
Pieces = Sequence[np.ndarray]


def can_be_stored(dtype: np.dtype[Any]) -> bool:
    """Returns whether `write_tensors` takes arrays of this dtype."""
    return dtype.name in _NAMES


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
    with open_to_read(path) as file:
        length = file.read(8)
        size = min(int.from_bytes(length, "little"), path.stat().st_size)
        return hashlib.sha256(length + file.read(size)).hexdigest()


def read_tensors(path: Path, on_read: Callable[[str, np.ndarray], None]) -> tuple[str, int]:
    """Reads the file `path` array by array; returns (SHA-256 in hex, bytes), which the caller compares.

    `on_read` receives each name and array (not reused afterwards), before the file is known to be whole. ValueError if
    it is not in this format, OSError as the operating system raises it.
    """
    digest = hashlib.sha256()
    with open_to_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = file.read(8)
        if int.from_bytes(length, "little") > size:
            raise ValueError("its header ends after the file")
        text = file.read(int.from_bytes(length, "little"))
        digest.update(length + text)
        for name, shape, dtype in _layout(strict_json.loads_plain(text), size - len(text) - 8):
            array = np.empty(shape, dtype)
            view = array.reshape(-1).view(np.uint8).data
            if file.readinto(view) != array.nbytes:
                raise ValueError(f"it ends inside the array {name}")
            digest.update(view)
            on_read(name, array)
        if rest := file.read(1):
            digest.update(rest)
        return digest.hexdigest(), file.tell()


def _layout(header: Any, size: int) -> list[tuple[str, list[int], np.dtype[Any]]]:
    """Returns (name, shape, dtype) of the arrays in the order of the file, before memory is allocated for them.

    ValueError unless the header describes arrays that follow each other without a gap in `size` bytes.
    """
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    found = []
    for name, entry in header.items():
        shape, offsets = entry["shape"], entry["data_offsets"]
        if not (_is_counts(shape) and len(shape) <= _MOST_AXES and _is_counts(offsets) and len(offsets) == 2):
            raise ValueError(f"the array {name} has no shape, or no place in the file")
        dtype = _DTYPES[entry["dtype"]]
        if offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"the array {name} has not as many bytes as its shape says")
        found.append((offsets, name, shape, dtype))
    found.sort(key=lambda array: array[:2])
    ends = [0, *(offsets[1] for offsets, *_ in found)]
    if [offsets[0] for offsets, *_ in found] != ends[:-1] or ends[-1] > size:
        raise ValueError("its arrays do not follow each other")
    return [(name, shape, dtype) for _, name, shape, dtype in found]


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(strict_json.is_count(number, _TOO_MANY) for number in value)


def _chunks(arrays: Mapping[str, np.ndarray | Pieces]) -> Iterator[bytes | memoryview]:
    header, offset, ordered = {}, 0, []
    for name, given in arrays.items():
        pieces = [given] if isinstance(given, np.ndarray) else given
        dtype = pieces[0].dtype
        if not can_be_stored(dtype):
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
