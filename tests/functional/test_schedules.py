"""Schedules against their definitions, and the texts that describe them."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veldt.functional.schedules import constant, cosine, linear, parse, piecewise

NUMBERS = st.floats(-1e6, 1e6)
PROGRESS = st.floats(0.0, 1.0)


@given(NUMBERS, PROGRESS)
def test_constant(value: float, progress: float) -> None:
    assert constant(value)(progress) == value


@given(NUMBERS, NUMBERS, PROGRESS)
def test_linear_is_a_straight_line_and_exact_at_its_ends(start: float, end: float, progress: float) -> None:
    schedule = linear(start, end)
    assert (schedule(0.0), schedule(1.0)) == (start, end)
    assert schedule(progress) == pytest.approx(
        np.interp(progress, [0.0, 1.0], [start, end]), rel=1e-9, abs=1e-6
    )


@given(st.floats(1e-6, 1.0), PROGRESS)
def test_linear_to_zero_equals_value_times_remaining_progress_bit_for_bit(
    value: float, progress: float
) -> None:
    assert linear(value, 0.0)(progress) == value * (1.0 - progress)


@given(NUMBERS, NUMBERS, PROGRESS)
def test_cosine(start: float, end: float, progress: float) -> None:
    middle, half = (start + end) / 2, (start - end) / 2
    assert cosine(start, end)(progress) == pytest.approx(
        middle + half * math.cos(math.pi * progress), rel=1e-9, abs=1e-6
    )


@given(
    st.lists(st.tuples(PROGRESS, NUMBERS), min_size=1, max_size=6, unique_by=lambda point: point[0]), PROGRESS
)
def test_piecewise_is_linear_between_points_and_constant_outside(
    points: list[tuple[float, float]], progress: float
) -> None:
    points = sorted(points)
    at, values = zip(*points, strict=True)
    found = piecewise(points)(progress)
    assert min(values) - 1e-6 <= found <= max(values) + 1e-6
    if min(b - a for a, b in zip((-1.0, *at), (*at, 2.0), strict=True)) > 1e-6:
        assert found == pytest.approx(np.interp(progress, at, values), rel=1e-6, abs=1e-3)
    assert [piecewise(points)(each) for each in at] == list(values)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("constant:3e-4", [3e-4] * 3),
        ("linear:2.5e-4:0", [2.5e-4, 1.25e-4, 0.0]),
        ("cosine:3e-4:1e-5", [3e-4, 1.55e-4, 1e-5]),
        ("piecewise:0=1.0,0.1=0.1,1=0.01", [1.0, 0.1 - 0.09 * 4 / 9, 0.01]),
    ],
)
def test_schedules_are_parsed_from_texts(text: str, values: list[float]) -> None:
    parsed = parse(text)
    assert parsed is not None
    assert [parsed.schedule(progress) for progress in (0.0, 0.5, 1.0)] == pytest.approx(values, rel=1e-12)


@pytest.mark.parametrize("text", ["constant:2", "linear:1:3", "cosine:3:1", "piecewise:0=2,1=2"])
def test_schedules_can_be_pickled(text: str) -> None:
    parsed = parse(text)
    assert parsed is not None
    assert pickle.loads(pickle.dumps(parsed)).schedule(0.5) == 2


def test_a_function_name_or_a_number_is_not_parsed_as_a_schedule() -> None:
    assert parse("mine:rate") is None and parse("1e-3") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("linear:1e-3", "linear takes a start and an end, such as linear:2.5e-4:0"),
        ("linear:1e-3:2:3", "linear takes a start and an end"),
        ("cosine:a:b", "cosine takes a start and an end, such as cosine:2.5e-4:0"),
        ("linear:1:nan", "linear takes a start and an end"),
        ("constant:", "constant takes one number"),
        ("piecewise:0=1,0.5", "piecewise takes points of progress and value"),
        ("piecewise:0.5=1,0.5=2", "the progress of piecewise's points must grow"),
        ("piecewise:0=1,2=2", r"must lie in \[0, 1\]"),
    ],
)
def test_texts_that_are_not_schedules_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)
