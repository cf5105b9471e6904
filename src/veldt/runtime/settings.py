"""What every setting carries besides its value and its help: a unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """Annotation of a configuration field: `steps: Annotated[int, Unit("steps")] = 5`."""

    name: str
