"""The speed of a run from its rows of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Speed(NamedTuple):
    """Agent steps per second, and the seconds of training that they were measured over."""

    steps_per_second: float
    seconds: float


def speed_while_learning(rows: Sequence[Mapping[str, Any]]) -> Speed | None:
    """Returns the speed from the first row with an update to the last row; None before there are two."""
    return speed_of([row for row in rows if row.get("train/updates")])


def speed_of(rows: Sequence[Mapping[str, Any]]) -> Speed | None:
    """Returns the speed from the first row to the last; None if no step was made between them."""
    if len(rows) < 2 or rows[-1]["seconds"] <= rows[0]["seconds"] or rows[-1]["step"] <= rows[0]["step"]:
        return None
    seconds = rows[-1]["seconds"] - rows[0]["seconds"]
    return Speed((rows[-1]["step"] - rows[0]["step"]) / seconds, seconds)
