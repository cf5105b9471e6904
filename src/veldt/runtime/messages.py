"""Serialises rare messages between processes: a JSON header and raw arrays, no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Packs `header` (JSON) and named arrays of plain dtypes into one message."""
    # (`ascontiguousarray` would turn a scalar into a vector.)
    arrays = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    schema = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
    head = json.dumps({"header": header, "arrays": schema}).encode()
    return b"".join([len(head).to_bytes(8, "little"), head, *(array.tobytes() for array in arrays.values())])


def unpack(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the header and the arrays of a message."""
    end = 8 + int.from_bytes(message[:8], "little")
    head = json.loads(message[8:end])
    arrays = {}
    for name, (dtype, shape) in head["arrays"].items():
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(message, dtype, count, end).reshape(shape)
        end += arrays[name].nbytes
    return head["header"], arrays
