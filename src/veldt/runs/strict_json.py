"""JSON that every reader accepts: non-finite floats are written as the strings "NaN", "Infinity" and "-Infinity".

What is read may come from somebody else: text that nests deeper, or has larger numbers, than any that veldt writes is
refused as no JSON, so that no reader of the value fails at them.

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

_DEEPEST = 100  # levels of lists and objects; veldt itself writes fewer than 20
_LARGEST_BITS = 1023  # a larger integer cannot be converted to a float
_TOO_DEEP = f"it nests deeper than {_DEEPEST} levels"
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(value: Any, indent: int | None = None, *, sort_keys: bool = False) -> str:
    """Returns `value` as JSON text in ASCII.

    Accepts the types of configs and metrics: mappings, sequences, sets, dataclasses, enums, paths, numpy scalars and
    arrays. TypeError for anything else.
    """
    return json.dumps(plain(value), indent=indent, sort_keys=sort_keys, allow_nan=False)


def loads(text: str | bytes) -> Any:
    """Returns the value of JSON text written by `dumps`; ValueError if it is not JSON, or beyond the limits."""
    return restored(_parsed(text))


def loads_plain(text: str | bytes) -> Any:
    """Returns what `loads` returns, with the strings for non-finite floats as they are: for a checksum."""
    value = _parsed(text)
    restored(value)
    return value


def is_count(value: Any, below: int) -> bool:
    """Whether a value of JSON is a whole number from 0 to `below` (exclusive)."""
    return type(value) is int and 0 <= value < below


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


def restored(value: Any, level: int = 0) -> Any:
    """Converts the three strings for non-finite floats in `value` back to floats; ValueError if beyond the limits."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
        raise ValueError("it has an integer that is too large")
    if level > _DEEPEST:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, dict):
        return {key: restored(item, level + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item, level + 1) for item in value]
    return value


def _parsed(text: str | bytes) -> Any:
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it has {name}, which is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
