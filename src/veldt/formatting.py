"""Formats numbers for people: 12.3M, 17m 20s, 1.4 GB. A value that is missing or not finite becomes an en dash."""

from __future__ import annotations

import math
from typing import Any

MISSING = "–"


def as_float(value: Any) -> float:
    """Returns `value` as a float; NaN if it is None, text or anything else that is not a number."""
    if isinstance(value, str) or value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def counted(number: int, one: str, many: str) -> str:
    """Returns the number with its noun, in the singular or in the plural."""
    return f"{number} {one if number == 1 else many}"


def count(value: Any) -> str:
    """Formats a count to three digits with its scale (`950`, `12.3k`, `4.1M`, `2B`)."""
    number = as_float(value)
    if not math.isfinite(number):
        return MISSING
    for scale, suffix in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        # 999,600 reads better as 1M than as 1000k.
        if abs(number) >= 0.9995 * scale:
            return f"{number / scale:.3g}{suffix}"
    return f"{number:.0f}"


def whole(value: Any) -> str:
    """Formats a count with every digit (`1,234,567`)."""
    number = as_float(value)
    return f"{number:,.0f}" if math.isfinite(number) else MISSING


def decimal(value: Any) -> str:
    """Formats a return or a loss to three or four digits (`1,234`, `187.3`, `1.52`, `0.0125`, `5e+39`)."""
    number = as_float(value)
    if not math.isfinite(number):
        return MISSING
    if number == 0 or 1000 <= abs(number) < 1e12:
        return f"{number:,.0f}"
    if abs(number) >= 1e12:  # what has diverged
        return f"{number:.3g}"
    if abs(number) >= 10:
        return f"{number:.1f}"
    return f"{number:.2f}" if abs(number) >= 1 else f"{number:.3g}"


def percent(share: Any) -> str:
    """Formats a fraction in 0..1 as a whole percentage."""
    number = as_float(share)
    return f"{100 * number:.0f}%" if math.isfinite(number) else MISSING


def duration(seconds: Any) -> str:
    """Formats seconds in their two largest units (`4.2s`, `17m 20s`, `2h 05m`, `3d 04h`)."""
    number = as_float(seconds)
    if not math.isfinite(number) or number < 0:
        return MISSING
    if number < 10:
        return f"{number:.1f}s"
    rest = round(number)
    if rest < 60:
        return f"{rest}s"
    if rest < 3600:
        return f"{rest // 60}m {rest % 60:02d}s"
    if rest < 86400:
        return f"{rest // 3600}h {rest % 3600 // 60:02d}m"
    return f"{rest // 86400}d {rest % 86400 // 3600:02d}h"


def short_time(seconds: float) -> str:
    """Formats seconds as microseconds, or from one millisecond on as milliseconds (`250 µs`, `4.2 ms`, `1,250 ms`)."""
    if seconds < 0.9995e-3:  # what is not rounded to 1000 µs
        return f"{seconds * 1e6:.0f} µs"
    digits = 1 if seconds < 0.01 else 0
    return f"{seconds * 1e3:,.{digits}f} ms"


def gib(number_of_bytes: float) -> str:
    """Formats memory in binary units, as systems count it (`7.6 GiB`, `14,901 GiB`)."""
    number = number_of_bytes / 2**30
    return f"{number:,.1f} GiB" if number < 100 else f"{number:,.0f} GiB"


def size(number_of_bytes: int) -> str:
    """Formats bytes in decimal units (`812 B`, `14.2 MB`, `2.1 GB`)."""
    number = float(number_of_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
