"""Schedules: numbers that change with progress, the fraction of the training budget that is done, in [0, 1].

text                               value at progress p

constant:V                         V
linear:START:END                   START (1 - p) + END p
cosine:START:END                   END + (START - END) (1 + cos π p) / 2   (Loshchilov & Hutter 2017, equation 5)
piecewise:0=V0,0.1=V1,1=V2         linear between the points; before the first and after the last as there
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

Schedule = Callable[[float], float]


@dataclass(frozen=True)
class Parsed:
    """A schedule, and the numbers between which all its values lie."""

    schedule: Schedule
    numbers: tuple[float, ...]


# A policy has schedules and can be pickled: they are partial calls, because pickle takes no nested function.


def constant(value: float) -> Schedule:
    """`value` at any progress."""
    return partial(_constant, value)


def linear(start: float, end: float) -> Schedule:
    """A straight line from `start` at 0 to `end` at 1; both are exact."""
    return partial(_linear, start, end)


def cosine(start: float, end: float) -> Schedule:
    """Half a period of a cosine from `start` at 0 to `end` at 1: slow at both ends."""
    return partial(_cosine, start, end)


def piecewise(points: Sequence[tuple[float, float]]) -> Schedule:
    """Straight lines between points (progress, value), whose progress grows; constant before the first and after the
    last."""
    return partial(_piecewise, points)


def _constant(value: float, progress: float) -> float:
    return value


def _linear(start: float, end: float, progress: float) -> float:
    return start * (1.0 - progress) + end * progress


def _cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * progress))


def _piecewise(points: Sequence[tuple[float, float]], progress: float) -> float:
    if progress <= points[0][0]:
        return points[0][1]
    for (first, start), (last, end) in itertools.pairwise(points):
        if progress <= last:
            share = (progress - first) / (last - first)
            return start * (1.0 - share) + end * share
    return points[-1][1]


def parse(text: str) -> Parsed | None:
    """Returns the schedule that a text describes; None if it does not begin with the name of one.

    Raises ValueError, with the end of a sentence on what is wrong, for a schedule that is not written as above.
    """
    kind, _, rest = text.partition(":")
    if kind == "constant":
        (value,) = _numbers(rest, 1, "constant takes one number, such as constant:3e-4")
        return Parsed(constant(value), (value,))
    if kind in ("linear", "cosine"):
        start, end = _numbers(rest, 2, f"{kind} takes a start and an end, such as {kind}:2.5e-4:0")
        return Parsed((linear if kind == "linear" else cosine)(start, end), (start, end))
    if kind == "piecewise":
        points = _points(rest)
        return Parsed(piecewise(points), tuple(value for _, value in points))
    return None


def _numbers(text: str, count: int, must: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        raise ValueError(must) from None
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(must)
    return numbers


def _points(text: str) -> list[tuple[float, float]]:
    must = "piecewise takes points of progress and value, such as piecewise:0=1.0,0.1=0.1,1=0.01"
    points = []
    for part in text.split(","):
        at, _, value = part.partition("=")
        points.append(tuple(_numbers(f"{at}:{value}", 2, must)))
    progress = [at for at, _ in points]
    if any(after <= before for before, after in itertools.pairwise(progress)):
        raise ValueError("the progress of piecewise's points must grow from one to the next")
    if progress[0] < 0.0 or progress[-1] > 1.0:
        raise ValueError("the progress of piecewise's points must lie in [0, 1]")
    return [(at, value) for at, value in points]
