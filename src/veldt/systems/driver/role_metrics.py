"""Combines the metrics that roles send into rows of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from veldt.exchange.rate_limiter import RateLimiter
from veldt.systems.roles.messages import ActorMetrics, LearnerMetrics
from veldt.tracking.stage_clock import StageClock

_ACTOR_STAGES = ("simulate", "infer", "replay", "wait")
_ADD_UP = frozenset({"system/outlier_gradients"})  # counted by each learner, from zero in every incarnation


class RoleMetrics:
    """The newest metrics of all roles.

    The clock gets the learner's time, which is the run's critical path; actors' time is logged as separate shares.
    """

    def __init__(self, names: Sequence[str], rate_limiter: RateLimiter, clock: StageClock) -> None:
        self._names, self._rate_limiter, self._clock = names, rate_limiter, clock
        self._actors: dict[int, ActorMetrics] = {}  # by actor, of its newest incarnation
        self._former: list[ActorMetrics] = []  # the last values of former incarnations
        self._reset_steps_returned = 0
        self._learner_seconds: dict[str, float] = {}
        self._sources: dict[int, Mapping[str, float]] = {}  # of each learner that sends any
        self._former_sums = dict.fromkeys(_ADD_UP, 0.0)
        self.role_restarts = 0
        self.updates, self.learning_rate = 0, 0.0

    def actor(self, role: int, message: ActorMetrics) -> None:
        """Stores an actor's message."""
        before = self._actors.get(role)
        if before is not None and message.restart_count != before.restart_count:
            self._former.append(before)
        self._actors[role] = message

    def learner(self, role: int, message: LearnerMetrics) -> None:
        """Stores a learner's message. Of several learners, only the first one's time counts."""
        before, now = self._sources.get(role, {}), message.source
        for name in _ADD_UP & before.keys() & now.keys():
            if now[name] < before[name]:
                self._former_sums[name] += before[name]
        self._sources[role] = now
        self.updates = max(self.updates, message.updates)
        if role > min(self._sources):
            return
        seconds = message.seconds
        for stage, spent in seconds.items():
            if stage != "wait":
                self._clock.seconds[stage] += max(0.0, spent - self._learner_seconds.get(stage, 0.0))
        self._learner_seconds = dict(seconds)
        self.learning_rate = message.learning_rate

    def new_reset_steps(self) -> int:
        """Reset steps since the last call."""
        total = sum(message.reset_steps for message in self._incarnations)
        new, self._reset_steps_returned = total - self._reset_steps_returned, total
        return new

    @property
    def env_restarts(self) -> int:
        return sum(message.env_restarts for message in self._incarnations)

    @property
    def _incarnations(self) -> list[ActorMetrics]:
        """The last message of every incarnation of every actor."""
        return [*self._actors.values(), *self._former]

    def row(self) -> dict[str, float]:
        """Returns metrics to log besides those that every system has."""
        row = {"system/role_restarts": float(self.role_restarts)}
        # Without an intensity to keep to, either nothing is replayed or the learners count what they replay themselves.
        if self._rate_limiter.intensity:
            row["replay/training_intensity"] = self._rate_limiter.achieved
        for name in sorted(set().union(*self._sources.values())):
            reported = [one[name] for one in self._sources.values() if name in one]
            row[name] = (
                sum(reported) + self._former_sums[name] if name in _ADD_UP else float(np.mean(reported))
            )
        seconds = [message.seconds for message in self._actors.values() if message.seconds]
        if seconds:
            total = max(1e-9, sum(sum(one.values()) for one in seconds))
            for stage in _ACTOR_STAGES:
                row[f"time/actor_{stage}_share"] = float(np.sum([one[stage] for one in seconds]) / total)
        return row
