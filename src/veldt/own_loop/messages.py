"""What the user's functions send to the main process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from veldt.errors import UsageError
from veldt.runtime.role_messages import RoleMessage


@dataclass(frozen=True)
class Logged(RoleMessage, kind="own-logged"):
    """Values to show, by name."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class StopAll(RoleMessage, kind="own-stop-all"):
    """Every process is to end; `why` is a sentence, or ""."""

    why: str


@dataclass(frozen=True)
class Returned(RoleMessage, kind="own-returned"):
    """What the user's function has returned, under "value"."""

    result: Mapping[str, Any]


def sendable(value: Any, what: str) -> Any:
    """Returns `value` with tensors as arrays, as messages carry it.

    Raises UsageError for anything but JSON values, arrays and tensors, alone or in mappings of these.
    """
    if isinstance(value, Mapping):
        return {str(key): sendable(item, f"{what}['{key}']") for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        value = [_json_value(item, what) for item in value]
    return value if isinstance(value, list) else _json_value(value, what)


def _json_value(value: Any, what: str) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UsageError(
        f"{what} is of the type {type(value).__name__}: between processes go numbers, texts, lists of these, arrays, "
        "tensors, and dictionaries of all these"
    )
