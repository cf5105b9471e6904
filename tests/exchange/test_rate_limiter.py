"""The rate limiter keeps the ratio of acting and learning, and never blocks both."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.errors import UsageError
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec, check_slack, least_slack


@settings(max_examples=60, deadline=None)
@given(
    intensity=st.floats(0.1, 40.0),
    batch=st.integers(1, 600),
    flush=st.integers(1, 200),
    actors=st.integers(1, 5),
    kept_back=st.integers(0, 100),
    starts=st.integers(0, 1000),
    extra=st.floats(0.0, 100.0),
    order=st.lists(st.integers(0, 5), min_size=100, max_size=100),
)
def test_acting_and_learning_never_block_each_other_and_keep_the_ratio(
    intensity: float,
    batch: int,
    flush: int,
    actors: int,
    kept_back: int,
    starts: int,
    extra: float,
    order: list[int],
) -> None:
    """Whoever's turn it is, as long as everybody has one now and then."""
    bounds = {"intensity": intensity, "batch_size": batch}
    slack = least_slack(**bounds, steps_at_once=flush * actors, steps_kept_back=kept_back) + extra
    rate_limiter = RateLimiter(
        RateLimiterSpec(actors, 1, **bounds, learning_starts=starts + batch, slack=slack), context=None
    )
    for who in [*order, *range(6)] * 5:
        moved = False
        for actor in range(actors):
            if (who == actor or who >= actors) and rate_limiter.may_act():
                rate_limiter.steps_A[actor] += flush
                moved = True
        stored = max(0, rate_limiter.steps - kept_back)
        if who in (0, 5) and rate_limiter.may_learn() and stored >= batch:
            rate_limiter.updates_L[0] += 1
            moved = True
        blocked = not rate_limiter.may_act() and not (rate_limiter.may_learn() and stored >= batch)
        assert moved or not blocked
        assert rate_limiter.samples <= max(0.0, rate_limiter.due)
        assert rate_limiter.due - rate_limiter.samples <= slack + intensity * flush * actors + 1e-6


def test_without_an_intensity_neither_side_waits() -> None:
    rate_limiter = RateLimiter(
        RateLimiterSpec(2, 1, intensity=0.0, learning_starts=10, batch_size=4, slack=0.0), context=None
    )
    assert rate_limiter.may_act() and not rate_limiter.may_learn()
    rate_limiter.steps_A[:] = 5
    assert rate_limiter.may_act() and rate_limiter.may_learn()
    rate_limiter.updates_L[0] = 1000
    assert rate_limiter.may_act() and rate_limiter.may_learn()


def test_no_actor_begins_a_slot_when_the_steps_are_done() -> None:
    for intensity in (0.0, 1.0):
        rate_limiter = RateLimiter(
            RateLimiterSpec(2, 1, intensity, learning_starts=10, batch_size=4, slack=1000.0), context=None
        )
        rate_limiter.max_steps = 20
        rate_limiter.steps_A[:] = 9
        assert rate_limiter.may_act()
        rate_limiter.steps_A[1] = 11
        assert not rate_limiter.may_act()
        rate_limiter.max_steps = 30
        assert rate_limiter.may_act(), "resumed for more"


def test_waived_samples_are_not_due() -> None:
    rate_limiter = RateLimiter(
        RateLimiterSpec(1, 2, 2.0, learning_starts=10, batch_size=4, slack=50.0), context=None
    )
    rate_limiter.steps_A[0], rate_limiter.updates_L[:] = 110, 3
    assert rate_limiter.due == 200 and rate_limiter.samples == 24 and not rate_limiter.may_act()
    rate_limiter.waive_backlog()
    assert rate_limiter.samples == 200 and rate_limiter.may_act() and not rate_limiter.may_learn()
    assert rate_limiter.achieved == 24 / 100, "which does not count as learned from"
    rate_limiter.waive_backlog()
    assert rate_limiter.samples == 200


def test_learning_that_begins_anew_owes_nothing_and_has_nothing_in_advance() -> None:
    rate_limiter = RateLimiter(
        RateLimiterSpec(1, 2, 2.0, learning_starts=10, batch_size=4, slack=50.0), context=None
    )
    rate_limiter.steps_A[0], rate_limiter.updates_L[:], rate_limiter.waived_L[1] = 110, 3, 7
    rate_limiter.begin_learning_anew(after=20)
    assert rate_limiter.samples == 0 and not rate_limiter.may_learn() and rate_limiter.may_act()
    rate_limiter.steps_A[0] += 20 + 4  # 4 steps, twice each: a batch of both learners
    assert rate_limiter.may_learn() and rate_limiter.due == 8


def test_a_slack_that_would_stop_both_is_refused() -> None:
    least = least_slack(intensity=8.0, batch_size=512, steps_at_once=64, steps_kept_back=32)
    check_slack(least, least)
    with pytest.raises(UsageError, match=r"would wait for each other without end; it must be at least 1280"):
        check_slack(least - 1, least)


def test_of_independent_learners_any_free_one_makes_the_next_update() -> None:
    """One that is lost does not keep the others."""
    spec = RateLimiterSpec(1, 2, intensity=2.0, learning_starts=0, batch_size=10, slack=100.0, together=False)
    rate_limiter = RateLimiter(spec, None)
    rate_limiter.steps_A[0] = 15
    assert rate_limiter.may_learn(0) and rate_limiter.may_learn(1)
    rate_limiter.updates_L[0] = 3
    assert (
        rate_limiter.samples == 30 == rate_limiter.due
        and not rate_limiter.may_learn(0)
        and not rate_limiter.may_learn(1)
    )
    rate_limiter.steps_A[0] = 20
    assert rate_limiter.may_learn(0)
    together = RateLimiter(
        RateLimiterSpec(1, 2, intensity=2.0, learning_starts=0, batch_size=10, slack=100.0), None
    )
    together.steps_A[0], together.updates_L[0] = 20, 2
    assert not together.may_learn(0) and together.may_learn(1), "the other's are to come first"
