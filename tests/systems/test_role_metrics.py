"""Metrics of roles, over all their incarnations."""

from __future__ import annotations

from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.systems.driver.role_metrics import RoleMetrics
from veldt.systems.roles.messages import ActorMetrics, LearnerMetrics
from veldt.tracking.stage_clock import StageClock


def said(restart_count: int, reset_steps: int, restarts: int) -> ActorMetrics:
    seconds = dict.fromkeys(("simulate", "infer", "replay", "wait"), 1.0)
    return ActorMetrics(restart_count, reset_steps, restarts, seconds)


def test_counts_continue_when_an_actor_is_restarted() -> None:
    rate_limiter = RateLimiter(RateLimiterSpec(2, 1, 0.0, 0, 1, 0.0), context=None)
    metrics = RoleMetrics(["actor 0", "actor 1"], rate_limiter, StageClock())
    counts = []
    for role, message in [
        (0, said(0, 2, 1)),
        (1, said(0, 3, 0)),
        (0, said(0, 5, 4)),
        (0, said(1, 5, 0)),  # as many as before, in another life
        (0, said(2, 6, 2)),
    ]:
        metrics.actor(role, message)
        counts.append((metrics.new_reset_steps(), metrics.env_restarts))
    assert counts == [(2, 1), (3, 1), (3, 4), (5, 4), (6, 6)]


def test_outliers_are_those_of_all_incarnations_of_all_learners() -> None:
    """Each life counts its own; what is no count is a mean."""
    metrics = RoleMetrics(
        ["learner 0", "learner 1"],
        RateLimiter(RateLimiterSpec(1, 2, 0.0, 0, 1, 0.0), context=None),
        StageClock(),
    )
    counted = []
    for role, outliers in [(0, 3.0), (1, 5.0), (0, 4.0), (0, 1.0), (1, 5.0), (0, 2.0)]:
        source = {"system/outlier_gradients": outliers, "system/outlier_gradient_share": outliers}
        metrics.learner(role, LearnerMetrics(1, {}, 0.0, 0.0, 0.0, 1e-3, 1, {}, source))
        counted.append(metrics.row()["system/outlier_gradients"])
    assert counted == [3.0, 8.0, 9.0, 10.0, 10.0, 11.0]
    assert metrics.row()["system/outlier_gradient_share"] == 3.5


def test_the_training_intensity_is_of_replayed_steps_alone() -> None:
    """Rows of rollouts, resets among them, are no uses of steps: A3C and IMPALA without a replay buffer log none."""
    for intensity, logged in ((0.0, None), (2.0, 1.6)):
        rate_limiter = RateLimiter(RateLimiterSpec(1, 1, intensity, 0, 32, 64.0), context=None)
        rate_limiter.steps_A[0], rate_limiter.updates_L[0] = 100, 5
        row = RoleMetrics(["actor", "learner"], rate_limiter, StageClock()).row()
        assert row.get("replay/training_intensity") == logged
