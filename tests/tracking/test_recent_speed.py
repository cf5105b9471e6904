"""The speed that the display shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veldt.tracking.recent_speed import RecentSpeed


def test_an_interval_without_steps_does_not_make_the_speed_zero() -> None:
    speed = RecentSpeed()
    assert speed.steps_per_second == 0
    speed.add(2048, 8.0)
    for _ in range(4):
        speed.add(0, 8.0)
    assert speed.steps_per_second == pytest.approx(2048 / 40), "a rollout may take longer than the window"
    speed.add(1024, 8.0)
    assert speed.steps_per_second == pytest.approx(1024 / 32)


def test_what_is_long_ago_does_not_count() -> None:
    speed = RecentSpeed()
    for _ in range(20):
        speed.add(100, 10.0)
    for _ in range(3):
        speed.add(1000, 10.0)
    assert speed.steps_per_second == pytest.approx(100.0)
    speed.clear()
    speed.add(10, 1.0)
    assert speed.steps_per_second == pytest.approx(10.0)


STEPS, SECONDS = st.integers(0, 100), st.integers(1, 80).map(lambda quarters: quarters / 4)


@given(st.lists(st.tuples(STEPS, SECONDS), min_size=1, max_size=40))
def test_the_window_is_the_shortest_end_of_the_run_with_steps_and_thirty_seconds(
    intervals: list[tuple[int, float]],
) -> None:
    speed = RecentSpeed()
    for interval in intervals:
        speed.add(*interval)
    ends = [intervals[begin:] for begin in range(len(intervals))]
    enough = [
        end for end in ends if sum(seconds for _, seconds in end) >= 30 and any(steps for steps, _ in end)
    ]
    window = enough[-1] if enough else intervals
    expected = sum(steps for steps, _ in window) / sum(seconds for _, seconds in window)
    assert speed.steps_per_second == pytest.approx(expected)
