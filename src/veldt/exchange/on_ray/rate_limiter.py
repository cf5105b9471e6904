"""The rate limiter between machines: counts are sent a few dozen times a second, and allowances keep to the slack.

An old count of others is too small. A learner that sees too few steps waits; an actor that saw too few steps of others
would act too much. So the server, which has all counts, allots the steps that the slack leaves: the actors' steps
together never exceed it, however old their counts of others are.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec


class RateCounts(NamedTuple):
    """All counts, int64 [A], [L], [L]; and `allowance`, the own steps up to which this actor may start to act."""

    steps_A: np.ndarray
    updates_L: np.ndarray
    waived_L: np.ndarray
    learning_starts: int
    max_steps: int
    allowance: float


class RateReport(NamedTuple):
    """The counts of one role."""

    steps: int
    updates: int
    waived: int
    has_acted: bool


class RateLimiterClient(RateLimiter):
    """A role's end. It writes its own counts; those of others are as old as the last message.

    Args:
        actor, learner: the role's index among them, -1 for none.
    """

    def __init__(self, spec: RateLimiterSpec, actor: int, learner: int) -> None:
        super().__init__(spec, context=None)
        self._actor, self._learner = actor, learner
        self._allowance, self._has_asked, self._has_counts = -1.0, False, False

    def may_act(self) -> bool:
        self._has_asked = True
        own = self.intensity == 0 or self.steps_A[self._actor] <= self._allowance
        return bool(own and self.steps < self.max_steps)

    def receive_counts(self, value: RateCounts) -> None:
        """Stores the counts of others from the server; at first also its own, from its former incarnation."""
        others_A = np.arange(len(self.steps_A)) != self._actor
        others_L = np.arange(len(self.updates_L)) != self._learner
        if not self._has_counts:
            others_A[:], others_L[:], self._has_counts = True, True, True
        np.copyto(self.steps_A, value.steps_A, where=others_A)
        np.copyto(self.updates_L, value.updates_L, where=others_L)
        np.copyto(self.waived_L, value.waived_L, where=others_L)
        self.learning_starts, self.max_steps = value.learning_starts, value.max_steps
        self._allowance = value.allowance

    def report(self) -> RateReport:
        steps = int(self.steps_A[self._actor]) if self._actor >= 0 else 0
        updates = int(self.updates_L[self._learner]) if self._learner >= 0 else 0
        waived = int(self.waived_L[self._learner]) if self._learner >= 0 else 0
        return RateReport(steps, updates, waived, self._has_asked)


class RateLimiterServer:
    """The supervisor's end: all counts in `rate_limiter`, and the steps allotted to each actor.

    Args:
        rate_limiter: in the supervisor's own process.
        actors, learners: index of the actor or learner, by number of the role.
    """

    def __init__(self, rate_limiter: RateLimiter, actors: dict[int, int], learners: dict[int, int]) -> None:
        self._rate_limiter, self._actors, self._learners = rate_limiter, actors, learners
        self._allotted_A = np.full(len(rate_limiter.steps_A), -1.0)
        self._acting = set[int]()
        self._lock = threading.Lock()

    def begins(self, role: int) -> None:
        """Clears the allotment of a role that restarts."""
        self.lost(role)

    def lost(self, role: int) -> None:
        with self._lock:
            if (actor := self._actors.get(role)) is not None:
                self._acting.discard(actor)
                self._allotted_A[actor] = -1.0

    def receive_report(self, role: int, report: RateReport) -> None:
        """Stores the counts of a role."""
        with self._lock:
            if (actor := self._actors.get(role)) is not None:
                self._rate_limiter.steps_A[actor] = report.steps
                if report.has_acted:
                    self._acting.add(actor)
            if (learner := self._learners.get(role)) is not None:
                self._rate_limiter.updates_L[learner] = report.updates
                self._rate_limiter.waived_L[learner] = report.waived

    def counts_for(self, role: int) -> RateCounts:
        """Returns the message for a role; an actor is allotted its share of the remaining steps."""
        rate_limiter = self._rate_limiter
        with self._lock:
            actor = self._actors.get(role, -1)
            allowance = self._allot(actor) if actor in self._acting else -1.0
            counts = rate_limiter.steps_A.copy(), rate_limiter.updates_L.copy(), rate_limiter.waived_L.copy()
            return RateCounts(*counts, rate_limiter.learning_starts, rate_limiter.max_steps, allowance)

    def _allot(self, actor: int) -> float:
        """Returns the steps up to which the actor may start to act; all allotments together keep to the slack."""
        rate_limiter, allotted_A = self._rate_limiter, self._allotted_A
        if rate_limiter.intensity == 0:
            return np.inf
        limit = (
            rate_limiter.learning_starts
            + (rate_limiter.samples + rate_limiter.slack) / rate_limiter.intensity
        )
        used_A = np.maximum(rate_limiter.steps_A, allotted_A)
        remaining = limit - used_A.sum()
        if remaining >= 0:
            share = (limit - rate_limiter.steps) / len(self._acting)
            wanted = min(rate_limiter.steps_A[actor] + share, used_A[actor] + remaining)
            allotted_A[actor] = max(allotted_A[actor], wanted)
        return float(allotted_A[actor])
