"""Metadata of settings besides value and help: the unit, and a check of the value against its declared type."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from veldt.errors import UsageError, did_you_mean

_FIELDS = "__dataclass_fields__"  # what every dataclass has
_KINDS = {bool, int, float, str, Path, type(None)}  # types of values that a flag can have


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


def check_settings_class(of: str, settings: Any, base: type[Any]) -> None:
    """Raises UsageError unless `settings` is a dataclass, a subclass of `base`, whose fields can be flags.

    Args:
        of: what has these settings, for messages: "the algorithm mine".
    """
    if not (isinstance(settings, type) and issubclass(settings, base) and hasattr(settings, _FIELDS)):
        raise UsageError(
            f"the settings of {of} are {settings!r}: they must be a dataclass, a subclass of "
            f"{base.__module__}.{base.__name__}"
        )
    hints = typing.get_type_hints(settings)
    fields = {field.name: field for field in dataclasses.fields(settings)}
    for name, hint in hints.items():
        if typing.get_origin(hint) is typing.ClassVar:
            continue
        setting = f"the setting '{name}' of {of}"
        if name not in fields:
            raise UsageError(
                f"{setting} is no field of a dataclass: write @dataclass(frozen=True, kw_only=True) above the class "
                f"{settings.__name__}"
            )
        if fields[name].default is dataclasses.MISSING:
            raise UsageError(f"{setting} has no default value: give it one, since no recipe has to set it")
        if not set(_parts_of(hint)) <= _KINDS:
            raise UsageError(
                f"{setting} has the type {hint}, which cannot be a flag: take bool, int, float, str, a Literal, or a "
                "tuple of one of them"
            )


def _parts_of(hint: Any) -> list[Any]:
    """Returns the types that a setting's type consists of."""
    if typing.get_origin(hint) is Literal:
        return [type(choice) for choice in typing.get_args(hint)]
    if typing.get_origin(hint) in (tuple, types.UnionType, typing.Union):
        return [part for inner in typing.get_args(hint) if inner is not ... for part in _parts_of(inner)]
    return [hint]


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
