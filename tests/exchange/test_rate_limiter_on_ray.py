"""The rate limiter on Ray: counts may be of any age, and actors may die."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from veldt.exchange.on_ray.rate_limiter import RateLimiterClient, RateLimiterServer
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec, least_slack


@settings(max_examples=60, deadline=None)
@given(
    intensity=st.floats(0.1, 40.0),
    batch=st.integers(1, 600),
    flush=st.integers(1, 200),
    actors=st.integers(1, 5),
    kept_back=st.integers(0, 100),
    starts=st.integers(0, 1000),
    order=st.lists(st.integers(0, 11), min_size=200, max_size=200),
    deaths=st.sets(st.integers(0, 999), max_size=5),
)
def test_the_slack_is_kept_with_counts_of_any_age_and_training_continues(
    intensity: float,
    batch: int,
    flush: int,
    actors: int,
    kept_back: int,
    starts: int,
    order: list[int],
    deaths: set[int],
) -> None:
    """Roles act, learn and exchange news in any order."""
    slack = 2 * least_slack(
        intensity=intensity, batch_size=batch, steps_at_once=flush * actors, steps_kept_back=kept_back
    )
    spec = RateLimiterSpec(actors, 1, intensity, starts + batch, batch, slack)
    rate_limiter = RateLimiter(spec, context=None)
    server = RateLimiterServer(rate_limiter, {1 + n: n for n in range(actors)}, {0: 0})
    ends = [RateLimiterClient(spec, -1, 0), *(RateLimiterClient(spec, n, -1) for n in range(actors))]
    stale = 0
    for turn, which in enumerate([*order, *range(12)] * 4):
        role = which % (actors + 1)
        end = ends[role]
        if which < 6:
            server.receive_report(role, end.report())
            end.receive_counts(server.counts_for(role))
        elif role == 0:
            stored = max(0, sum(int(e.steps_A[n]) for n, e in enumerate(ends[1:])) - kept_back)
            if end.may_learn() and stored >= batch:
                end.updates_L[0] += 1
        elif end.may_act():
            end.steps_A[role - 1] += flush
        if turn in deaths and role > 0:  # what it had not reported is lost
            server.lost(role)
            stale += flush
            ends[role] = RateLimiterClient(spec, role - 1, -1)
            ends[role].receive_counts(server.counts_for(role))
        steps = sum(int(e.steps_A[n]) for n, e in enumerate(ends[1:]))
        samples = int(ends[0].updates_L[0]) * batch
        due = (steps - spec.learning_starts) * intensity
        assert due <= samples + slack + intensity * flush * actors + 1e-6
        assert samples <= max(0.0, due + stale * intensity) + 1e-6
    before = int(ends[0].updates_L[0])
    for _ in range(400 * max(1, round(spec.learning_starts / flush / actors))):
        for role, end in enumerate(ends):
            server.receive_report(role, end.report())
            end.receive_counts(server.counts_for(role))
            if role and end.may_act():
                end.steps_A[role - 1] += flush
            elif not role and end.may_learn():
                end.updates_L[0] += 1
        if ends[0].updates_L[0] > before + 3:
            return
    raise AssertionError("acting and learning wait for each other")
