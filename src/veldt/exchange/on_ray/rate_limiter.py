"""The rate_limiter edge among hosts: counts travel a few dozen times a second, and allowances keep to the slack all the same.

A count of others that is old is too small. A learner that sees too few steps waits; an actor that saw too few steps of
others would act too much. So whoever has the counts of all allots what steps the slack leaves: what all actors may make
together never exceeds it, however old their news is.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec


class RateNews(NamedTuple):
    """What all count: int64 [A], [L], [L]; and up to how many steps this one may begin to act."""

    steps_A: np.ndarray
    updates_L: np.ndarray
    waived_L: np.ndarray
    starts: int
    max_steps: int
    allowance: float


class RateReport(NamedTuple):
    """What one role counts itself."""

    steps: int
    updates: int
    waived: int
    has_acted: bool


class RateLimiterClient(RateLimiter):
    """A role's end. Its own counts are its own; those of others are as old as the last news of them.

    Args:
        actor, learner: which it is, -1 for none.
    """

    def __init__(self, spec: RateLimiterSpec, actor: int, learner: int) -> None:
        super().__init__(spec, context=None)
        self._actor, self._learner = actor, learner
        self._allowance, self._has_asked, self._is_told = -1.0, False, False

    def may_act(self) -> bool:
        self._has_asked = True
        own = self.intensity == 0 or self.steps_A[self._actor] <= self._allowance
        return bool(own and self.steps < self.max_steps)

    def told(self, value: RateNews) -> None:
        """Takes news; its own counts only at first, from its former life."""
        others_A = np.arange(len(self.steps_A)) != self._actor
        others_L = np.arange(len(self.updates_L)) != self._learner
        if not self._is_told:
            others_A[:], others_L[:], self._is_told = True, True, True
        np.copyto(self.steps_A, value.steps_A, where=others_A)
        np.copyto(self.updates_L, value.updates_L, where=others_L)
        np.copyto(self.waived_L, value.waived_L, where=others_L)
        self.starts, self.max_steps, self._allowance = value.starts, value.max_steps, value.allowance

    def report(self) -> RateReport:
        steps = int(self.steps_A[self._actor]) if self._actor >= 0 else 0
        updates = int(self.updates_L[self._learner]) if self._learner >= 0 else 0
        excused = int(self.waived_L[self._learner]) if self._learner >= 0 else 0
        return RateReport(steps, updates, excused, self._has_asked)


class RateLimiterServer:
    """The supervisor's side: the counts of all in `rate_limiter`, and who has been allotted what.

    Args:
        rate_limiter: in the supervisor's own process.
        actors, learners: by number of the role, which it is.
    """

    def __init__(self, rate_limiter: RateLimiter, actors: dict[int, int], learners: dict[int, int]) -> None:
        self._rate_limiter, self._actors, self._learners = rate_limiter, actors, learners
        self._allotted_A = np.full(len(rate_limiter.steps_A), -1.0)
        self._acting = set[int]()
        self._lock = threading.Lock()

    def begins(self, role: int) -> None:
        """A new life has been allotted nothing."""
        self.lost(role)

    def lost(self, role: int) -> None:
        with self._lock:
            if (actor := self._actors.get(role)) is not None:
                self._acting.discard(actor)
                self._allotted_A[actor] = -1.0

    def heard(self, role: int, report: RateReport) -> None:
        """Takes what a role has counted."""
        with self._lock:
            if (actor := self._actors.get(role)) is not None:
                self._rate_limiter.steps_A[actor] = report.steps
                if report.has_acted:
                    self._acting.add(actor)
            if (learner := self._learners.get(role)) is not None:
                self._rate_limiter.updates_L[learner] = report.updates
                self._rate_limiter.waived_L[learner] = report.waived

    def told(self, role: int) -> RateNews:
        """What a role is to know; an actor is allotted its share of what is left."""
        rate_limiter = self._rate_limiter
        with self._lock:
            actor = self._actors.get(role, -1)
            allowance = self._allot(actor) if actor in self._acting else -1.0
            counts = rate_limiter.steps_A.copy(), rate_limiter.updates_L.copy(), rate_limiter.waived_L.copy()
            return RateNews(*counts, rate_limiter.starts, rate_limiter.max_steps, allowance)

    def _allot(self, actor: int) -> float:
        """How many steps it may have made when it begins to act; all actors' together are what the slack allows."""
        rate_limiter, allotted_A = self._rate_limiter, self._allotted_A
        if rate_limiter.intensity == 0:
            return np.inf
        most = rate_limiter.starts + (rate_limiter.samples + rate_limiter.slack) / rate_limiter.intensity
        taken_A = np.maximum(rate_limiter.steps_A, allotted_A)
        left = most - taken_A.sum()
        if left >= 0:
            share = (most - rate_limiter.steps) / len(self._acting)
            wanted = min(rate_limiter.steps_A[actor] + share, taken_A[actor] + left)
            allotted_A[actor] = max(allotted_A[actor], wanted)
        return float(allotted_A[actor])
