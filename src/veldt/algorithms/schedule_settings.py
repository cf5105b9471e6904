"""Settings that are a number or a schedule: a text (see `functional.schedules`), or the user's function of progress."""

from __future__ import annotations

import dataclasses
import math
import typing
from typing import Any

from veldt.errors import UsageError, VeldtError, described
from veldt.functional.schedules import Schedule, constant, linear, parse
from veldt.setting_metadata import flag
from veldt.user_code.import_path import load_function, split_name

# Lowest and highest value of veldt's own such settings; those of other algorithms may have any. Where a number must be
# above the lowest value, a schedule may still end there.
RANGES: dict[str, tuple[float, float]] = {
    "learning_rate": (0.0, math.inf),
    "actor_learning_rate": (0.0, math.inf),
    "clip": (0.0, math.inf),
    "ent_coef": (0.0, math.inf),
    "epsilon": (0.0, 1.0),
}
_ANY = (-math.inf, math.inf)
_HOW = (
    "a number, linear:START:END, cosine:START:END, piecewise:0=V,1=W, or your own function as module:function"
)


def check_schedule(name: str, value: float | str, *, above: bool = False) -> None:
    """Raises UsageError unless the value of this setting is allowed. A function of the user is not imported.

    Args:
        above: whether a number must be above the lowest value.
    """
    low, high = RANGES.get(name, _ANY)
    allowed = _allowed(low, high)
    if not isinstance(value, str):
        if value < low or value > high or (above and value == low):
            allowed = f"more than {low:g}" if above else allowed
            raise UsageError(f"{flag(name)} is {value}: it must be {allowed}")
        return
    try:
        parsed = parse(value)
    except ValueError as error:
        raise UsageError(f"{flag(name)} is '{value}': {error}") from None
    if parsed is None:
        try:
            split_name(value, "schedule")
        except UsageError:
            raise UsageError(f"{flag(name)} is '{value}': it must be {_HOW}") from None
    elif wrong := [number for number in parsed.numbers if not low <= number <= high]:
        raise UsageError(f"{flag(name)} is '{value}', with the value {wrong[0]:g}: each must be {allowed}")


def make_schedule(name: str, value: float | str, *, falls: bool = False) -> Schedule:
    """Returns the schedule of this setting's value. A function of the user is imported when it is first needed.

    Args:
        falls: whether a number falls linearly to 0.

    Raises:
        UsageError: the value is not a schedule.
    """
    if not isinstance(value, str):
        return linear(value, 0.0) if falls else constant(value)
    check_schedule(name, value)  # the settings class of a plug-in may not have done so
    parsed = parse(value)
    return OwnSchedule(name, value) if parsed is None else parsed.schedule


class OwnSchedule:
    """The user's function of progress, `module:function`. Calls raise UsageError where it fails, or returns something
    that the setting does not allow."""

    def __init__(self, setting: str, name: str) -> None:
        self._setting, self._name = setting, name
        self._function: Any = None

    def __call__(self, progress: float) -> float:
        if self._function is None:
            self._function = load_function(self._name, "schedule")
        subject = f"{flag(self._setting)}'s schedule {self._name}"
        try:
            value = float(self._function(progress))
        except VeldtError:
            raise
        except Exception as error:
            raise UsageError(f"{subject} failed at progress {progress:g}: {described(error)}") from error
        low, high = RANGES.get(self._setting, _ANY)
        if not (math.isfinite(value) and low <= value <= high):
            must = _allowed(low, high) if math.isfinite(value) else "a finite number"
            raise UsageError(f"{subject} returned {value:g} at progress {progress:g}: it must be {must}")
        return value


def _allowed(low: float, high: float) -> str:
    """Returns what values a setting may have, as the end of "it must be"."""
    if math.isinf(low):
        return "a finite number"
    return f"in [{low:g}, {high:g}]" if math.isfinite(high) else f"{low:g} or more"


def schedule_functions(config: Any) -> dict[str, str]:
    """Returns, by name, the settings of type `float | str` that are functions of the user: the functions' names."""
    hints = typing.get_type_hints(type(config))
    values = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if set(typing.get_args(hints[field.name])) == {float, str}
    }
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, str) and value and parse(value) is None
    }


def try_functions(config: Any) -> None:
    """Calls the user's functions at the beginning and at the end. Raises UsageError as `OwnSchedule` does."""
    for name, value in schedule_functions(config).items():
        schedule = OwnSchedule(name, value)
        schedule(0.0), schedule(1.0)
