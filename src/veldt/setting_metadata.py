"""Metadata of settings besides value and help: the unit, and a check of the value against its declared type."""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass
from typing import Any, Literal

from veldt.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Unit:
    """Annotation of a configuration field: `steps: Annotated[int, Unit("steps")] = 5`."""

    name: str


def schedule(text: str) -> float | str:
    """Returns a number, or the text of a schedule as it is: how a setting of type `float | str` is read."""
    try:
        return float(text)
    except ValueError:
        return text


def flag(name: str) -> str:
    """Returns the command-line flag of a setting."""
    return "--" + name.replace("_", "-")


def check_values(config: Any) -> None:
    """UsageError if a field holds a value that its declaration does not allow: an unknown name, a fraction, NaN."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        hint, value = hints[field.name], getattr(config, field.name)
        given_as = flag(field.name)
        if typing.get_origin(hint) is Literal and value not in typing.get_args(hint):
            choices = typing.get_args(hint)
            raise UsageError(
                f"{given_as} is '{value}'{did_you_mean(str(value), choices)}: it must be one of {', '.join(choices)}"
            )
        if hint is int and not isinstance(value, int):
            raise UsageError(f"{given_as} is {value!r}: it must be a whole number, such as 1_000_000")
        number = hint is float or (float in typing.get_args(hint) and value is not None)
        number &= not (str in typing.get_args(hint) and isinstance(value, str))
        if number and not (isinstance(value, int | float) and math.isfinite(value)):
            raise UsageError(f"{given_as} is {value!r}: it must be a finite number")
