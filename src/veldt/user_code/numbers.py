"""Numbers that the user's own code returns."""

from __future__ import annotations

from typing import Any


def as_number(value: Any) -> float | None:
    """Returns `float(value)`; None for what it does not take, such as None or several numbers."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # torch raises the last one for several numbers
        return None
