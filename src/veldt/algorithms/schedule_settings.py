"""Settings that are a number or a schedule: a text (see `functional.schedules`), or the user's function of progress."""

from __future__ import annotations

import dataclasses
import math
import typing
from typing import Any

from veldt.errors import PluginError, UsageError, VeldtError, described
from veldt.functional.schedules import Parsed, Schedule, constant, linear, parse
from veldt.runtime.activity import importing
from veldt.setting_metadata import ANY, Range, hints_of, ranges_of
from veldt.setting_text import flag
from veldt.user_code.import_path import load_function, split_name
from veldt.user_code.numbers import as_number

_HOW = (
    "a number, linear:START:END, cosine:START:END, piecewise:0=V,1=W, or your own function as module:function"
)


def check_schedules(config: Any) -> None:
    """Raises UsageError for a text that is no schedule, or has a value out of the setting's range (`Range`).

    A function of the user is not imported. An empty text is allowed where it is the default.
    """
    ranges = ranges_of(type(config))
    for field in _schedule_fields(config):
        value = getattr(config, field.name)
        if isinstance(value, str) and (value or field.default != ""):
            _parsed(field.name, value, ranges.get(field.name, ANY))


def make_schedule(config: Any, name: str, *, falls: bool = False) -> Schedule:
    """Returns the schedule of the setting `name`. A function of the user is imported when it is first needed.

    Args:
        config: the settings, a dataclass.
        falls: whether a number falls linearly to 0.

    Raises:
        UsageError: the value is not a schedule.
    """
    value = getattr(config, name)
    if not isinstance(value, str):
        return linear(value, 0.0) if falls else constant(value)
    allowed = ranges_of(type(config)).get(name, ANY)
    parsed = _parsed(name, value, allowed)
    return OwnSchedule(name, value, allowed) if parsed is None else parsed.schedule


def _parsed(name: str, value: str, allowed: Range) -> Parsed | None:
    """Returns the schedule that a text describes; None for the name of a function. UsageError for another text."""
    try:
        parsed = parse(value)
    except ValueError as error:
        raise UsageError(f"{flag(name)} is '{value}': {error}") from None
    if parsed is None:
        try:
            split_name(value, "schedule")
        except UsageError:
            raise UsageError(f"{flag(name)} is '{value}': it must be {_HOW}") from None
    elif wrong := [number for number in parsed.numbers if not allowed.has(number)]:
        raise UsageError(
            f"{flag(name)} is '{value}', with the value {wrong[0]:g}: each must be {allowed.allowed}"
        )
    return parsed


class OwnSchedule:
    """The user's function of progress, `module:function`. Calls raise UsageError where it fails, or returns something
    that the setting does not allow, and PluginError where its module fails when it is imported."""

    def __init__(self, setting: str, name: str, allowed: Range) -> None:
        self._setting, self._name, self._allowed = setting, name, allowed
        self._function: Any = None

    def __call__(self, progress: float) -> float:
        subject = f"{flag(self._setting)}'s schedule {self._name}"
        if self._function is None:
            with importing(PluginError, subject):
                self._function = load_function(self._name, "schedule")
        try:
            returned = self._function(progress)
        except VeldtError:
            raise
        except Exception as error:
            raise UsageError(f"{subject} failed at progress {progress:g}: {described(error)}") from error
        if (value := as_number(returned)) is None:
            raise UsageError(f"{subject} returned {returned!r} at progress {progress:g}: it must be a number")
        if not (math.isfinite(value) and self._allowed.has(value)):
            must = self._allowed.allowed if math.isfinite(value) else "a finite number"
            raise UsageError(f"{subject} returned {value:g} at progress {progress:g}: it must be {must}")
        return value


def schedule_functions(config: Any) -> dict[str, str]:
    """Returns, by name, the settings of type `float | str` that are functions of the user: the functions' names."""
    return {name: text for name, text in _texts(config).items() if parse(text) is None}


def changing_schedules(config: Any) -> list[str]:
    """Returns the names of the settings whose schedules have more than one value, as far as is known."""
    return [name for name, text in _texts(config).items() if not _is_constant(text)]


def _texts(config: Any) -> dict[str, str]:
    """Returns, by name, the settings of type `float | str` that are texts and not empty."""
    values = {field.name: getattr(config, field.name) for field in _schedule_fields(config)}
    return {name: value for name, value in values.items() if isinstance(value, str) and value}


def _is_constant(text: str) -> bool:
    parsed = parse(text)
    return parsed is not None and len(set(parsed.numbers)) == 1


def try_functions(config: Any) -> None:
    """Calls the user's functions at the beginning and at the end. Raises UsageError as `OwnSchedule` does."""
    for name, value in schedule_functions(config).items():
        schedule = OwnSchedule(name, value, ranges_of(type(config)).get(name, ANY))
        schedule(0.0), schedule(1.0)


def _schedule_fields(config: Any) -> list[dataclasses.Field[Any]]:
    hints = hints_of(type(config))
    return [
        field
        for field in dataclasses.fields(config)
        if set(typing.get_args(hints[field.name])) == {float, str}
    ]
