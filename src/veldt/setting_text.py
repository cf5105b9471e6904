"""Settings and their values as text: a function for each place where people read or type them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

_LARGEST_SHOWN = 10**40


def flag(name: str) -> str:
    """Returns the command-line flag of a setting."""
    return "--" + name.replace("_", "-")


def as_words(name: str, value: Any) -> list[str]:
    """Returns a setting with its value as words of a command."""
    if isinstance(value, bool):
        return [flag(name) if value else flag(f"no_{name}")]
    if isinstance(value, list | tuple):
        return [flag(name), *map(str, value)]
    if isinstance(value, Mapping):
        return [flag(name), json.dumps(value)]
    return [flag(name), "none" if value is None else str(value)]


def shown(value: Any) -> str:
    """Returns what messages about a wrong value call it: Python's notation, or the number of digits of a huge one."""
    if isinstance(value, int) and abs(value) > _LARGEST_SHOWN:
        return f"a number of {int(math.log10(abs(value))) + 1:,} digits"
    try:
        return repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return f"a {type(value).__name__} with a number of more than {sys.get_int_max_str_digits():,} digits"


def in_sentence(value: Any) -> str:
    """Returns a value as sentences about a run's settings have it: `none`, `64 64`, else as Python prints it."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def in_help(value: Any) -> str:
    """Returns a default as the help has it: with digits in groups as a flag takes them, `50_000`."""
    return f"{value:_}" if type(value) is int else _typed(value, " ")


def in_table(value: Any) -> str:
    """Returns a value as tables of recipes have it: with digits in groups as in a text, `50,000`; floats short."""
    if type(value) is int:
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else _typed(value, " ")


def in_search(value: Any) -> str:
    """Returns a value as `--search` has it, where a space separates values: `64x64`; floats short if that is exact."""
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return _typed(value, "x")


def _typed(value: Any, between: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return between.join(map(str, value)) if isinstance(value, tuple) else str(value)
