"""The verdicts of experiments: intervals that few seeds deserve, and words for what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from veldt.experiments.catalogue.verdicts import (
    NOTHING,
    Estimate,
    Verdict,
    all_of,
    at_least,
    at_most,
    between,
    comparison,
    difference,
    equals,
    falls_short,
    keeps,
    mean,
    over_games,
    ratio,
    words,
)
from veldt.report import statistics

NAN = float("nan")
YES, NO = Verdict(True), Verdict(False)


def test_the_interval_of_a_mean_is_student_s() -> None:
    """Of 1, 2, 3: 2 +- 4.303 / sqrt(3)."""
    known = mean([1.0, NAN, 2.0, 3.0])
    assert (known.value, known.values) == (2.0, 3)
    assert known.high == pytest.approx(2 + 4.303 / math.sqrt(3)) and known.low == pytest.approx(
        4 - known.high
    )
    assert mean([2.0, 2.0]) == Estimate(2.0, 2.0, 2.0, 2)
    one, none = mean([2.0]), mean([NAN])
    assert one.value == 2.0 and math.isnan(one.low) and math.isnan(none.value) and math.isnan(mean([]).value)


def test_the_interval_of_ratios_is_that_of_their_logarithms() -> None:
    known = ratio([1.0, 4.0])
    reach = 12.706 * math.log(4.0) / 2
    assert known.value == pytest.approx(2.0) and known.values == 2
    assert known.low == pytest.approx(2.0 * math.exp(-reach)) and known.high == pytest.approx(
        2.0 * math.exp(reach)
    )
    wide = ratio([1e-80, 1e80])
    assert (
        wide.high == math.inf and at_least(wide, 1.0).because == "the 95% interval over 2 seeds is too wide"
    )


def test_the_interval_of_a_difference_is_welch_s() -> None:
    """With 3.4 degrees of freedom, of which the table has 3: 3.182 errors to either side."""
    known = difference([3.0, 4.0, 5.0, 9.0], [1.0, 2.0, 2.0])
    assert known.value == pytest.approx(5.25 - 5 / 3) and known.values == 3
    error = math.sqrt(np.var([3, 4, 5, 9], ddof=1) / 4 + np.var([1, 2, 2], ddof=1) / 3)
    assert known.high - known.value == pytest.approx(3.182 * error)
    assert difference([5.0, 5.0], [4.0, 4.0], 0.5) == Estimate(3.0, 3.0, 3.0, 2)
    assert math.isnan(difference([5.0], [4.0, 4.0]).low) and difference([5.0], [4.0, 4.0]).value == 1.0
    assert math.isnan(difference([], [4.0]).value) and math.isnan(difference([NAN], [4.0, 3.0]).value)


def test_the_intervals_have_the_coverage_that_they_claim() -> None:
    """At least 93% of the intervals of two, three and five normal values have the mean in them."""
    draws = np.random.default_rng(0).normal(size=(2_000, 5))
    for seeds in (2, 3, 5):
        found = [mean(draw[:seeds].tolist()) for draw in draws]
        assert np.mean([one.low <= 0 <= one.high for one in found]) > 0.93
    pairs = [difference(draw[:3].tolist(), draw[3:].tolist()) for draw in draws]
    assert np.mean([one.low <= 0 <= one.high for one in pairs]) > 0.93


def test_an_interval_over_games_is_as_wide_as_few_seeds_need() -> None:
    """The bootstrap's own interval of two seeds of three games has the mean in it in three of four cases only."""
    draws = np.random.default_rng(0).normal(size=(250, 2, 3))
    found = [over_games(statistics.interquartile_mean, draw, repeats=80) for draw in draws]
    assert np.mean([one.low <= 0 <= one.high for one in found]) > 0.93
    assert over_games(statistics.mean, np.ones((2, 3))) == Estimate(1.0, 1.0, 1.0, 2)
    assert math.isnan(over_games(statistics.mean, np.ones((1, 3))).low)


def test_a_verdict_needs_the_whole_interval_on_one_side() -> None:
    assert at_least(Estimate(1.0, 0.5, 1.5, 3), 0.5) == YES
    assert at_least(Estimate(1.0, 0.5, 1.5, 3), 1.6) == NO
    assert at_least(Estimate(1.0, 0.5, 1.5, 3), 1.0) == Verdict(
        None, "the 95% interval over 3 seeds is too wide"
    )
    assert at_most(Estimate(1.0, 0.5, 1.5, 3), 1.5) == YES and at_most(Estimate(1.0, 0.5, 1.5, 3), 0.4) == NO
    assert between(Estimate(1.0, 0.5, 1.5, 3), 0.0, 2.0) == YES
    assert between(Estimate(1.0, 0.5, 1.5, 3), 0.6, 2.0).agrees is None
    assert between(Estimate(1.0, 0.5, 1.5, 3), 2.0, 3.0) == NO


def test_without_an_interval_nothing_is_decided() -> None:
    assert at_least(mean([5.0]), 0.0) == Verdict(None, "one seed has no interval")
    assert at_least(mean([5.0], "algorithms"), 0.0) == Verdict(None, "a single value has no interval")
    assert at_least(mean([NAN]), 0.0) == Verdict(None, NOTHING) == all_of([])
    assert keeps([NAN, NAN], [1.0, 2.0]) == keeps([], []) == equals([1.0], []) == Verdict(None, NOTHING)


def test_a_score_is_kept_above_nine_tenths_also_where_it_is_negative() -> None:
    assert keeps([95.0, 95.2], [100.0, 100.0]) == YES and keeps([80.0, 80.2], [100.0, 100.0]) == NO
    assert keeps([20.0, 160.0], [100.0, 100.0]).agrees is None
    assert keeps([-21.0, -21.0], [-20.0, -20.0]) == YES and keeps([-23.0, -23.0], [-20.0, -20.0]) == NO
    assert falls_short([80.0, 80.2], [100.0, 100.0]) == YES
    assert equals([95.0, 95.0], [100.0, 100.0]) == YES == equals([105.0, 105.0], [100.0, 100.0])
    assert equals([115.0, 115.0], [100.0, 100.0]) == NO == equals([-23.0, -23.0], [-20.0, -20.0])


def test_all_of_several_verdicts() -> None:
    assert all_of([YES, YES]) == YES and all_of([YES, Verdict(None, "of this"), NO]) == NO
    assert all_of([YES, Verdict(None, "of this"), Verdict(None, "of that")]) == Verdict(None, "of this")


def test_the_words_of_a_verdict() -> None:
    wide = Verdict(None, "the 95% interval over 3 seeds is too wide")
    assert words({}) == "Whether this agrees cannot be seen here because results are missing"
    assert words({"a": YES}) == "This agrees with the paper"
    assert words({"a": NO}) == "This does not agree with the paper"
    assert words({"a": wide}) == f"Whether this agrees cannot be seen here because {wide.because}"
    assert words({"a": YES, "b": NO, "c": YES, "d": wide, "e": YES}) == (
        "This agrees with the paper for a, c and e. This does not agree with the paper for b. Whether it agrees for d "
        f"cannot be seen here because {wide.because}"
    )
    assert words({f"g{index}": YES for index in range(8)}) == (
        "This agrees with the paper for g0, g1, g2, g3, g4, g5 and 2 more"
    )


def test_names_with_commas_are_in_quotation_marks() -> None:
    assert words({"a, b": YES, "c": YES}) == "This agrees with the paper for 'a, b' and c"
    assert words({f"g, {index}": NO for index in range(7)}).endswith("'g, 4', 'g, 5' and 1 more")


def test_what_is_said() -> None:
    assert comparison("It is 3", "The paper finds 3", {"a": YES}) == (
        "It is 3. The paper finds 3. This agrees with the paper."
    )
    assert comparison("", "The paper finds 3", {}).startswith(
        "Nothing is measured yet. The paper finds 3. Whether"
    )
