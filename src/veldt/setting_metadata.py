"""Metadata of settings besides value and help: unit and range, and a check of the value against its declaration."""

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


@dataclass(frozen=True)
class Range:
    """Annotation of a number or a schedule: `rate: Annotated[float | str, Range(0.0, above=True)] = 1e-3`.

    It holds in subclasses, too, also where they declare the field again without one.

    Args:
        low, high: the lowest and the highest value that is allowed.
        above: whether a number must be above `low`; a schedule may still end there.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False

    @property
    def allowed(self) -> str:
        """The values of a schedule that are allowed, as the end of "it must be"."""
        if math.isinf(self.low):
            return f"at most {self.high:g}" if math.isfinite(self.high) else "a finite number"
        return f"in [{self.low:g}, {self.high:g}]" if math.isfinite(self.high) else f"{self.low:g} or more"

    def has(self, value: float) -> bool:
        """Returns whether a schedule may have this value."""
        return self.low <= value <= self.high

    def check(self, name: str, value: float) -> None:
        """Raises UsageError unless the setting `name` may be this number."""
        if self.above and value <= self.low:
            raise UsageError(f"{flag(name)} is {value}: it must be more than {self.low:g}")
        if not self.has(value):
            raise UsageError(f"{flag(name)} is {value}: it must be {self.allowed}")


ANY = Range()


def ranges_of(cls: type[Any]) -> dict[str, Range]:
    """Returns the ranges that a settings class and its bases declare, by the setting's name; the nearest class's."""
    ranges: dict[str, Range] = {}
    for owner in reversed(cls.__mro__):
        hints = typing.get_type_hints(owner, include_extras=True) if hasattr(owner, _FIELDS) else {}
        for name, hint in hints.items():
            declared = [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Range)]
            if declared:
                ranges[name] = declared[0]
    return ranges


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
    """UsageError if a field holds a value that its declaration does not allow: an unknown name, a fraction, NaN, a
    number out of its range."""
    hints, ranges = typing.get_type_hints(type(config)), ranges_of(type(config))
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
        if isinstance(value, int | float):
            ranges.get(field.name, ANY).check(field.name, value)
