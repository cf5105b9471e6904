"""JSON that every reader accepts: non-finite floats are written as the strings "NaN", "Infinity" and "-Infinity".

Python's own `json` would write a bare `NaN`, which is not JSON and which most other readers reject. Null is not used
for it: null means "not measured", and a reader must be able to see that a loss became NaN.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(value: Any, indent: int | None = None, *, sort_keys: bool = False) -> str:
    """Returns `value` as JSON text in ASCII.

    Accepts the types of configs and metrics: mappings, sequences, sets, dataclasses, enums, paths, numpy scalars and
    arrays. TypeError for anything else.
    """
    return json.dumps(plain(value), indent=indent, sort_keys=sort_keys, allow_nan=False)


def loads(text: str | bytes) -> Any:
    """Returns the value of JSON text written by `dumps`; ValueError if it is not JSON."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    value = json.loads(text)
    # Most of the many rows of a log have none of the three strings; a backslash may begin an escape for their letters.
    return restored(value) if "NaN" in text or "Infinity" in text or "\\" in text else value


def plain(value: Any) -> Any:
    """Converts `value` to the types of JSON: dict, list, str, int, finite float, bool, None."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON: {value!r}")


def restored(value: Any) -> Any:
    """Converts the three strings for non-finite floats in `value` back to floats."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return value
