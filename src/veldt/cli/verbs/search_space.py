"""Reads the values of --search: which settings are searched, and over which values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from veldt.cli.arguments import Setting, settings_of
from veldt.errors import UsageError, did_you_mean
from veldt.setting_text import flag

if TYPE_CHECKING:
    from veldt.recipes.draft import Draft
    from veldt.tuning.space import Choices, Dimension, Interval

_INTERVALS = ("log", "uniform")
_ROUNDING = 1e-9  # of steps: 0.3 is three times 0.1
_SWITCH = {"yes": True, "true": True, "no": False, "false": False}
_NUMBER = r"([\d.]+(?:e[+-]?\d+)?)"
# What a range may be taken to look like: 1e-3..1e-2, 1e-3:1e-2, [1e-3:1e-2], linear:1e-3:1e-2.
_RANGE = re.compile(rf"[\[(]?(?:[a-z_]+:)?{_NUMBER}(?:\.\.+|:){_NUMBER}[\])]?", re.IGNORECASE)
_FORMS = (
    "write it as log:1e-5:1e-2, uniform:0.9:0.999, uniform:64:256:64 (with a step), or single values with commas "
    "between them (0.98,0.99)"
)


def read_space(draft: Draft, given: Mapping[str, Any], searched: Sequence[str]) -> dict[str, Dimension]:
    """Returns the space that the words of --search describe; without any, the usual one of the recipe.

    Args:
        given: the settings that all trials have.

    Raises:
        UsageError: a setting is unknown, or cannot be searched over these values.
    """
    from veldt.tuning.space import default_space

    usual = default_space(draft, given)
    if not searched:
        if not usual:
            raise UsageError("all settings that are usually searched are given: name others with --search")
        return usual
    space: dict[str, Dimension] = {}
    for word in searched:
        name, equals, values = word.partition("=")
        name = name.removeprefix("--").replace("-", "_")
        if name in space:
            raise UsageError(f"--search names {name} twice: write all its values after one")
        setting = _setting(draft, name, word)
        if equals:
            space[name] = _dimension(setting, values, word)
        elif name in usual:
            space[name] = usual[name]
        elif name in given:
            raise UsageError(f"{flag(name)} is given, and --search {name} too: leave one of them out")
        else:
            raise UsageError(
                f"--search {name} is without values, and {name} is not usually searched: {_FORMS}"
            )
    return space


def _setting(draft: Draft, name: str, word: str) -> Setting:
    from veldt.recipes.overrides import why_no_setting

    section = draft.section_of(name)
    if section is None:
        known = {setting.name for cls in draft.classes.values() for setting in settings_of(cls)}
        if why := why_no_setting(draft, name):
            raise UsageError(f"--search {word}: {why}")
        raise UsageError(
            f"--search {word}: {draft.recipe} has no setting '{name}'{did_you_mean(name, known)}; see "
            f"`veldt recipes {draft.recipe}`"
        )
    if section == "run":
        raise UsageError(
            f"--search {word}: {name} is about how long a run is, where it runs and how it is recorded, which is the "
            f"same for all trials; give it as {flag(name)}"
        )
    return next(setting for setting in settings_of(draft.classes[section]) if setting.name == name)


def _dimension(setting: Setting, text: str, word: str) -> Dimension:
    kind, *ends = text.split(":")
    if kind in _INTERVALS and "," not in text:
        return _interval(setting, kind == "log", ends, word)
    if meant := _RANGE.fullmatch(text):
        low, high = meant.groups()
        raise UsageError(
            f"--search {word}: a range begins with how it is drawn; write {setting.name}=log:{low}:{high} or "
            f"{setting.name}=uniform:{low}:{high}"
        )
    return _choices(setting, text, word)


def _interval(setting: Setting, is_logarithmic: bool, ends: Sequence[str], word: str) -> Interval:
    from veldt.tuning.space import Interval

    if setting.kind is bool or setting.repeats or len(ends) not in (2, 3):
        raise UsageError(f"--search {word}: {_FORMS}")
    low, high, *steps = (_value(setting, end, word) for end in ends)
    if any(isinstance(number, str) for number in (low, high, *steps)):
        raise UsageError(f"--search {word}: both ends must be numbers, and a step too")
    if low >= high:
        raise UsageError(f"--search {word}: the first number must be less than the second")
    if is_logarithmic and low <= 0:
        raise UsageError(
            f"--search {word}: a logarithmic range must begin above 0; take uniform, or another beginning"
        )
    if not steps:
        return Interval(low, high, is_logarithmic, setting.kind is int)
    (step,) = steps
    if is_logarithmic:
        raise UsageError(
            f"--search {word}: a logarithmic range has no step; take uniform, or leave the step out"
        )
    if not 0 < step <= high - low:
        raise UsageError(f"--search {word}: the step must be above 0, and at most the difference of the ends")
    last = low + math.floor((high - low) / step + _ROUNDING) * step
    return Interval(
        low, last if setting.kind is int else float(f"{last:.10g}"), False, setting.kind is int, step
    )


def _choices(setting: Setting, text: str, word: str) -> Choices:
    from veldt.tuning.space import choices

    texts = [part.strip() for part in text.split(",")]
    values = [_value(setting, part, word) for part in texts]
    if len(set(values)) < len(values):
        raise UsageError(f"--search {word}: a value is there twice")
    if len(values) < 2:
        raise UsageError(
            f"--search {word}: that is one value, and leaves nothing to search; {_FORMS}, or give it as {setting.flag}"
        )
    return choices(*values)


def _value(setting: Setting, text: str, word: str) -> Any:
    if setting.kind is bool:
        if text.lower() not in _SWITCH:
            raise UsageError(f"--search {word}: '{text}' must be yes or no")
        return _SWITCH[text.lower()]
    try:
        if setting.repeats:
            return tuple(setting.value(part) for part in text.split("x"))
        return setting.value(text)
    except UsageError as error:
        raise UsageError(f"--search {word}: {error}; {_FORMS}") from None
