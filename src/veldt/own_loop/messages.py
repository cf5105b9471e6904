"""What the user's functions send to the main process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veldt.runtime.role_messages import RoleMessage


@dataclass(frozen=True)
class Logged(RoleMessage, kind="own-logged"):
    """Values to show, by name; `packed`."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class StopAll(RoleMessage, kind="own-stop-all"):
    """Every process is to end; `why` is a sentence, or ""."""

    why: str


@dataclass(frozen=True)
class Returned(RoleMessage, kind="own-returned"):
    """What the user's function has returned; `packed`."""

    value: Mapping[str, Any]
