"""The speed of more learners than a machine has, against one that adds up the seconds of a single update."""

from __future__ import annotations

import pytest

from veldt.experiments.more_learners import Exchange, MeasuredPair

ACT, START, ROW, BYTES = (
    3e-3,
    5e-3,
    1e-4,
    8e-3,
)  # seconds of a step, of an update, of a row of it; of all its bytes
STEPS, ROWS = 64, 512  # of one learner for an update


def naive(learners: int, exchange: Exchange) -> float:
    """Seconds of an agent step: what each learner does for an update, one thing after another."""
    sent = 0.0 if learners == 1 else BYTES * 2 * (learners - 1) / learners  # of a ring
    if exchange == "one batch for all":
        return (ACT * STEPS / learners + START + ROW * ROWS / learners + sent) / STEPS
    if exchange == "asynchronous":
        sent = BYTES if learners > 1 else 0.0
    return (ACT * STEPS + START + ROW * ROWS + sent) / (STEPS * learners)


@pytest.mark.parametrize("exchange", ["one batch for all", "a batch for each", "asynchronous"])
def test_it_adds_up(exchange: Exchange) -> None:
    measured = MeasuredPair(naive(1, exchange), naive(2, exchange), busy=1.0, cores=2)
    for learners in (2, 4, 8):
        assert measured.step_s(learners, exchange) == pytest.approx(naive(learners, exchange))


def test_one_learner_that_keeps_more_than_half_of_the_cores_busy_slows_two_down() -> None:
    """Two then have all cores busy, and need no exchange to be less than twice as fast as one."""
    measured = MeasuredPair(alone_s=1.0, pair_s=0.8, busy=1.6, cores=2)
    assert measured.own_s == 0.8
    assert measured.step_s(4, "one batch for all") == pytest.approx(0.4)


def test_two_that_are_faster_than_without_an_exchange_exchange_nothing() -> None:
    assert MeasuredPair(1.0, 0.4, busy=1.0, cores=2).step_s(8, "asynchronous") == pytest.approx(0.125)
