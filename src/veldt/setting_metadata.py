"""Metadata of settings besides value and help: unit and range, and a check of the value against its declaration."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import numbers
import operator
import os
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from veldt.errors import UsageError, did_you_mean
from veldt.setting_text import flag, shown

_FIELDS = "__dataclass_fields__"  # what every dataclass has
# Types of values that a flag can have, and what messages call a value of each.
_DESCRIBED = {
    bool: "True or False",
    int: "a whole number (an int)",
    float: "a finite number",
    str: "a string",
    type(None): "None",
}
TOO_LARGE = 1 << 63  # for the sizes and counters of torch and numpy
_OfClass = typing.TypeVar("_OfClass", bound=Callable[[type[Any]], Any])
PATH = str | os.PathLike[str]  # what a path may be given as; see `check_path`


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


def _once(function: _OfClass) -> _OfClass:
    """Remembers what a function of a class returns: to resolve types takes a millisecond, and each new object asks."""
    return typing.cast(_OfClass, functools.cache(function))


@_once
def hints_of(cls: type[Any]) -> Mapping[str, Any]:
    """Returns the types of a settings class by the setting's name, without what `Annotated` adds."""
    return typing.get_type_hints(cls)


@_once
def annotated_hints_of(cls: type[Any]) -> Mapping[str, Any]:
    """Returns the types of a settings class by the setting's name, with what `Annotated` adds."""
    return typing.get_type_hints(cls, include_extras=True)


@_once
def ranges_of(cls: type[Any]) -> Mapping[str, Range]:
    """Returns the ranges that a settings class and its bases declare, by the setting's name; the nearest class's."""
    ranges: dict[str, Range] = {}
    for owner in reversed(cls.__mro__):
        hints = annotated_hints_of(owner) if hasattr(owner, _FIELDS) else {}
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
    try:
        hints, annotated = hints_of(settings), annotated_hints_of(settings)
    except NameError as error:
        raise UsageError(
            f"the settings of {of}, {settings.__name__}, have a type that cannot be found ({error}): import it where "
            f"{settings.__module__} begins"
        ) from None
    fields = {field.name: field for field in dataclasses.fields(settings)}
    for name, hint in hints.items():
        if typing.get_origin(hint) is typing.ClassVar:
            continue
        setting = f"the setting '{name}' of {of}"
        if name not in fields:
            raise UsageError(
                f"{setting} is not a field of a dataclass: write @dataclass(frozen=True, kw_only=True) above the class "
                f"{settings.__name__}"
            )
        _check_default(setting, settings, fields[name])
        _check_type(setting, hint, getattr(annotated[name], "__metadata__", ()))


def _check_default(setting: str, settings: type[Any], field: dataclasses.Field[Any]) -> None:
    """Raises UsageError unless a field has a default value, the one that its class declares last."""
    # Without a type it is no field of its class, and objects have the base class's default.
    if (value := getattr(settings, field.name, field.default)) is not field.default:
        raise UsageError(
            f"{setting} is set to {value!r} without a type, which has no effect: write "
            f"`{field.name}: TYPE = {value!r}` in {settings.__name__}, under @dataclass(frozen=True, kw_only=True)"
        )
    if field.default_factory is not dataclasses.MISSING:
        raise UsageError(
            f"{setting} has a default_factory: give it a default value that cannot change, such as (1, 2) for "
            "tuple[int, ...]"
        )
    if field.default is dataclasses.MISSING:
        raise UsageError(f"{setting} has no default value: give it one, since no recipe has to set it")


def _check_type(setting: str, hint: Any, annotations: tuple[Any, ...]) -> None:
    """Raises UsageError unless a flag can have values of the type `hint`, and its annotations have an effect."""
    for annotation in annotations:
        if annotation in (Unit, Range):
            raise UsageError(
                f"{setting} is annotated with the class {annotation.__name__}, which has no effect: call it, "
                f"{annotation.__name__}(...)"
            )
    if not set(_parts_of(hint)) <= _DESCRIBED.keys():
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
    """Raises UsageError if a field holds a value that its declaration does not allow: of another type, an unknown name,
    NaN, a number out of its range. A list or a vector of integers in the place of a tuple becomes one, a float without
    a fraction in the place of an int one, and NumPy's numbers Python's."""
    hints, ranges = hints_of(type(config)), ranges_of(type(config))
    for field in dataclasses.fields(config):
        given = getattr(config, field.name)
        hint = hints[field.name]
        value = _checked(flag(field.name), _as_declared(given, hint), hint)
        if isinstance(value, list):
            value = tuple(value)
        if value is not given:
            object.__setattr__(config, field.name, value)  # it is frozen, and this is a part of its making
        if isinstance(value, int | float):
            ranges.get(field.name, ANY).check(field.name, value)


def _as_declared(value: Any, hint: Any) -> Any:
    """Returns what a value stands for that is not of the type `hint`: 1e6 for an int, NumPy's vector for a tuple."""
    value, parts = as_python(value), _union_of(hint)
    if type(value) is float and value.is_integer() and int in parts and float not in parts:
        return int(value)
    is_vector = isinstance(value, np.ndarray) and value.ndim == 1 and np.issubdtype(value.dtype, np.integer)
    return value.tolist() if is_vector and any(typing.get_origin(part) is tuple for part in parts) else value


def check_type(name: str, value: Any, hint: Any) -> Any:
    """Returns `value`, as of `as_python`. UsageError unless it is of the type `hint`; `name` is what messages call it.

    A whole number is a float, True and False are no numbers, NaN and infinity are no values. A list may be in the place
    of a tuple.
    """
    return _checked(name, as_python(value), hint)


def check_path(name: str, value: Any, *, required: bool = False) -> None:
    """Raises UsageError unless `value` is a path, or None where it is not `required`.

    An empty string, as of a shell's variable that is not set, would be the current directory.
    """
    check_type(name, value, PATH if required else PATH | None)
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{name} is empty: give a path{'' if required else ', or leave it out'}")


def _checked(name: str, value: Any, hint: Any) -> Any:
    if not _is_of(value, hint):
        choices = [
            choice
            for part in _union_of(hint)
            if typing.get_origin(part) is Literal
            for choice in typing.get_args(part)
        ]
        close = did_you_mean(value, choices) if isinstance(value, str) else ""
        # Infinity and NaN: what else the setting may be, such as the text of a schedule, is not what was meant.
        allowed = float if isinstance(value, float) and float in _union_of(hint) else hint
        raise UsageError(f"{name} is {shown(value)}{close}: it must be {_described(allowed)}")
    for number in value if isinstance(value, tuple | list) else (value,):
        if isinstance(number, int) and abs(number) >= TOO_LARGE:
            raise UsageError(f"{name} is {shown(value)}: it must be {bound_of_64_bits(number > 0)}")
    return value


def bound_of_64_bits(is_positive: bool) -> str:
    """Returns the bound of a whole number that does not keep it, as the end of "it must be"."""
    return "less than 2^63" if is_positive else "more than -2^63"


def as_python(value: Any) -> Any:
    """Returns a number, or a list, tuple or mapping of numbers, of another library as Python's bool, int and float;
    other values as they are.

    A float of fewer bits becomes the number that it is written as: 0.001, not the 0.0010000000474974513 of its bits.
    """
    if type(value) in (tuple, list):
        parts = [as_python(part) for part in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    if isinstance(value, Mapping):
        converted = {key: as_python(part) for key, part in value.items()}
        return value if all(converted[key] is part for key, part in value.items()) else converted
    if type(value) in (bool, int, float):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.float32 | np.float16):
        return float(str(value))
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        with contextlib.suppress(OverflowError):  # such as Fraction(10**400)
            return float(value)
    return value


def _union_of(hint: Any) -> tuple[Any, ...]:
    """Returns the types of which a value may have any: the parts of a union, else the type itself."""
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def _is_of(value: Any, hint: Any) -> bool:
    if len(parts := _union_of(hint)) > 1:
        return any(_is_of(value, part) for part in parts)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        each = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return len(value) == len(each) and all(map(_is_of, value, each))
    if origin in (dict, Mapping):
        return isinstance(value, origin) and all(_is_of(key, arguments[0]) for key in value)
    if hint is float:
        return type(value) is int or (isinstance(value, float) and math.isfinite(value))
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def _described(hint: Any) -> str:
    """Returns what a value of this type is, as the end of "it must be"."""
    if len(parts := _union_of(hint)) > 1:
        return " or ".join(map(_described, parts))
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if typing.get_origin(hint) is tuple:
        each = dict.fromkeys(_described(part) for part in arguments if part is not ...)
        number = "" if ... in arguments else f" of {len(arguments)}"
        return f"a tuple{number}, each part of it {' or '.join(each)}"
    if typing.get_origin(hint) in (dict, Mapping):
        return "a dict" if arguments[0] is object else f"a dict, each key of it {_described(arguments[0])}"
    return _DESCRIBED.get(hint) or f"a {(typing.get_origin(hint) or hint).__name__}"
