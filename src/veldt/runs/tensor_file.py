"""Writing arrays in the safetensors format as a stream, hashed on the way.

The library's own writer wants a second copy of everything (or hides a full disk behind its own error), and its output
would have to be read again for the checksum. A checkpoint with a replay memory is many gigabytes, so neither will do.
The format itself is small: an 8-byte little-endian length, a JSON header, the raw little-endian arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from veldt.runs.files import write_all

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "complex64": "C64", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray]) -> tuple[str, int]:
    """Write `arrays` (any shape, also of size zero) to the new file `path`; returns (SHA-256 in hex, bytes).

    The file is on the disk, not only in the page cache, when this returns. TypeError for a dtype that safetensors
    does not have, OSError as the operating system raises it.
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


def _chunks(arrays: Mapping[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    header, offset, ordered = {}, 0, []
    for name, array in arrays.items():
        if array.dtype.name not in _NAMES:
            raise TypeError(f"array {name!r} has dtype {array.dtype}, which a safetensors file cannot hold")
        # Widest first, as the library does: then every array is aligned to its own item size.
        ordered.append((-array.dtype.itemsize, name, array))
    ordered.sort(key=lambda entry: entry[:2])
    for _, name, array in ordered:
        offsets = [offset, offset + array.nbytes]
        header[name] = {
            "dtype": _NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": offsets,
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, _, array in ordered:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        # One array at a time is copied, and only if it is not contiguous already.
        yield np.ascontiguousarray(little).reshape(-1).view(np.uint8).data
