"""The tuner on simulated rates: it finds the best setting, follows it when it changes, and ignores noise and drift."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.systems.ga3c.tuner import Decision, Tuner

MOST = 8
# Rates by predictors, trainers and the number of the interval.
Surface = Callable[[int, int, int], float]


def hill(predictors: int, trainers: int) -> Surface:
    """The rate falls by 6% with each step away from the best."""
    return lambda p, t, _: 1000 * (1 - 0.06 * abs(p - predictors)) * (1 - 0.06 * abs(t - trainers))


def tuned(surface: Surface, intervals: int, noise: float, seed: int, start: int = 1) -> list[tuple[int, int]]:
    """The setting that is kept after each interval; every measurement is off by a factor of about 1 ± `noise`."""
    rng = random.Random(seed)
    tuner = Tuner(
        {"predictors": start, "trainers": start}, dict.fromkeys(("predictors", "trainers"), (1, MOST)), seed
    )
    kept = []
    for interval in range(intervals):
        now = tuner.setting
        tuner.record(surface(now["predictors"], now["trainers"], interval) * rng.gauss(1.0, noise))
        kept.append((tuner.accepted["predictors"], tuner.accepted["trainers"]))
    return kept


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.02])
@pytest.mark.parametrize("best", [(4, 3), (1, 5), (8, 8), (1, 1)])
def test_the_tuner_finds_the_optimum_and_stays_there(noise: float, best: tuple[int, int]) -> None:
    kept = [tuned(hill(*best), 200, noise, seed) for seed in range(20)]
    assert all(one[-1] == best for one in kept)
    if not noise:
        assert all(set(one[one.index(best) :]) == {best} for one in kept), "it has no reason to leave"


def test_the_tuner_follows_an_optimum_that_moves_and_returns() -> None:
    before, meanwhile = hill(5, 3), hill(2, 6)
    surface: Surface = lambda p, t, i: (meanwhile if 150 <= i < 300 else before)(p, t, i)  # noqa: E731
    for seed in range(20):
        kept = tuned(surface, 450, 0.01, seed)
        assert (kept[149], kept[299], kept[-1]) == ((5, 3), (2, 6), (5, 3))


@pytest.mark.parametrize(
    "drift",
    [
        lambda i: 1.0 + 0.03 * i,  # it warms up
        lambda i: 0.97**i,  # neighbours come, and go on coming
        lambda i: 2.0 if i % 14 < 7 else 1.0,  # a neighbour comes and goes
    ],
    ids=["faster and faster", "slower and slower", "now and then"],
)
def test_drift_of_the_measured_rate_changes_no_setting(drift: Callable[[int], float]) -> None:
    for seed in range(20):
        assert set(tuned(lambda p, t, i: 100 * drift(i), 200, 0.0, seed, start=4)) == {(4, 4)}, (
            "all are alike"
        )
        hilly = tuned(lambda p, t, i: hill(4, 4)(p, t, i) * drift(i), 200, 0.002, seed, start=4)
        assert hilly[-1] == (4, 4)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 1e6), max_size=120),
    st.dictionaries(
        st.sampled_from("abc"), st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1
    ),
    st.integers(0, 5),
)
def test_settings_stay_within_their_bounds(
    rates: list[float], shape: dict[str, tuple[int, int, int]], seed: int
) -> None:
    bounds = {name: (least, least + below + above) for name, (least, below, above) in shape.items()}
    start = {name: least + below for name, (least, below, _) in shape.items()}
    tuner = Tuner(start, bounds, seed)
    kept = dict(tuner.accepted)
    for rate in rates:
        decision = tuner.record(rate)
        for name, (least, most) in bounds.items():
            assert least <= tuner.setting[name] <= most and least <= tuner.accepted[name] <= most
        assert sum(abs(tuner.setting[name] - tuner.accepted[name]) for name in bounds) <= 1, (
            "one of them, by one"
        )
        assert (tuner.accepted != kept) == (decision is not None and decision.is_accepted)
        kept = dict(tuner.accepted)


def test_fixed_settings_do_not_change() -> None:
    tuner = Tuner({"predictors": 2, "agents": 8}, {"predictors": (1, 4)}, 0)
    for interval in range(50):
        assert tuner.setting["agents"] == 8
        tuner.record(100.0 * (1 + interval))
    fixed = Tuner({"predictors": 2}, {"predictors": (2, 2)}, 0)
    assert [fixed.record(100.0) for _ in range(5)] == [None] * 5 and fixed.setting == {"predictors": 2}


def test_a_decision_names_the_rates_it_was_made_by() -> None:
    tuner = Tuner({"trainers": 1}, {"trainers": (1, 2)}, 0)
    rates = iter([100.0, 120.0, 101.0, 119.0])
    seen, decision = [], None
    while decision is None:
        seen.append(tuner.setting["trainers"])
        decision = tuner.record(next(rates))
    assert seen == [1, 2, 1, 2], "kept and moved in turn"
    assert decision == Decision({"trainers": 1}, {"trainers": 2}, (100.0, 101.0), (120.0, 119.0), True)
    assert tuner.accepted == {"trainers": 2}
    # What was measured of the move last is what the next is measured against, and it is too slow by then.
    assert tuner.setting == {"trainers": 1}
    assert tuner.record(119.5) is None and tuner.setting == {"trainers": 2}
    refused = tuner.record(119.0)
    assert refused == Decision({"trainers": 2}, {"trainers": 1}, (119.0, 119.0), (119.5,), False)
