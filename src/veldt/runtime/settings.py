"""What every setting carries besides its value and its help: a unit, and a check of values that are names."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, Literal

from veldt.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Unit:
    """Annotation of a configuration field: `steps: Annotated[int, Unit("steps")] = 5`."""

    name: str


def check_choices(config: Any) -> None:
    """UsageError where a field of a configuration that is declared as a `Literal` holds anything else."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        hint, value = hints[field.name], getattr(config, field.name)
        if typing.get_origin(hint) is not Literal or value in typing.get_args(hint):
            continue
        choices = typing.get_args(hint)
        raise UsageError(
            f"--{field.name.replace('_', '-')} is '{value}'{did_you_mean(str(value), choices)}: it must be one of "
            f"{', '.join(choices)}"
        )
