"""Two-sided rate limiter: neither learning may run ahead of acting, nor acting of learning.

Each step is to be sampled `intensity` times. Due are (steps - learning_starts) x intensity samples; done are updates x
batch_size. The learner waits where it would do more than is due; actors wait where more than `slack` samples are due
and not done.
"""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

from veldt.errors import UsageError
from veldt.runtime.shared import Layout, SharedArrays


@dataclass(frozen=True)
class RateLimiterSpec:
    """Settings of the rate limiter.

    Args:
        actors, learners: how many of them count.
        intensity: samples per step (training intensity); 0 leaves both sides free.
        learning_starts: steps before the first update.
        batch_size: samples of an update of one learner; 0 where it varies.
        slack: samples that may be due and not done.
        acts_on: whether actors continue until the run's last checkpoint is complete: learners that wait for each other
            need batches to the end.
        together: whether all learners make each update together; else a learner that is free makes the next.
    """

    actors: int
    learners: int
    intensity: float
    learning_starts: int
    batch_size: int
    slack: float
    acts_on: bool = False
    together: bool = True

    @classmethod
    def free(cls, actors: int, learners: int, batch: int) -> RateLimiterSpec:
        """Returns settings without limits: steps and updates are only counted."""
        return cls(actors, learners, intensity=0.0, learning_starts=0, batch_size=batch, slack=0.0)


class RateLimiter:
    """Shared by all roles that act or learn; each writes its own counts. Picklable while a process is being started.

    steps_A    int64 [A]  steps of each actor
    updates_L  int64 [L]  updates of each learner's own batches
    waived_L   int64 [L]  samples of each learner that count as done without an update
    """

    def __init__(self, spec: RateLimiterSpec, context: BaseContext | None) -> None:
        self.intensity, self.learning_starts = spec.intensity, spec.learning_starts
        self.batch_size, self.slack = spec.batch_size, spec.slack
        self._acts_on, self._together = spec.acts_on, spec.together
        # One cache line for each count.
        layouts = {"steps": Layout((spec.actors, 8), "int64"), "updates": Layout((spec.learners, 8), "int64")}
        layouts |= {"waived": Layout((spec.learners, 8), "int64"), "max_steps": Layout((1, 8), "int64")}
        self._counts = SharedArrays(layouts, context)
        self._name_counts()
        self._max_steps_1[0] = np.iinfo(np.int64).max

    def _name_counts(self) -> None:
        names = ("steps", "updates", "waived", "max_steps")
        self.steps_A, self.updates_L, self.waived_L, self._max_steps_1 = (
            self._counts[name][:, 0] for name in names
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not isinstance(value, np.ndarray)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_counts()

    @property
    def max_steps(self) -> int:
        """Steps after which acting stops."""
        return int(self._max_steps_1[0])

    @max_steps.setter
    def max_steps(self, steps: int) -> None:
        if not self._acts_on:
            self._max_steps_1[0] = steps

    def waive_backlog(self) -> None:
        """Counts all due samples as done. Learner 0 calls it when it has no data, since otherwise all would wait."""
        self.waived_L[0] += max(0, int(self.due - self.samples))

    def begin_learning_anew(self, after: int) -> None:
        """Makes the next update due when `after` further steps are done, as in a new run: none is owed from before."""
        self.learning_starts = self.steps + after
        self.waived_L[:] = 0
        self.waived_L[0] = -self.samples  # the updates so far do not count as done in advance

    @property
    def steps(self) -> int:
        return int(self.steps_A.sum())

    @property
    def samples(self) -> int:
        """Samples that are done, including waived ones."""
        return int(self.updates_L.sum()) * self.batch_size + int(self.waived_L.sum())

    @property
    def due(self) -> float:
        """Samples that may be done by now."""
        return (self.steps - self.learning_starts) * self.intensity

    @property
    def achieved(self) -> float:
        """Samples per step so far, since learning started, without waived ones."""
        return (self.samples - int(self.waived_L.clip(min=0).sum())) / max(
            1, self.steps - self.learning_starts
        )

    def may_act(self) -> bool:
        return self.steps < self.max_steps and (self.intensity == 0 or self.due <= self.samples + self.slack)

    def may_learn(self, learner: int = 0) -> bool:
        """Whether the learner's next update is due; see `together` of `RateLimiterSpec`."""
        if self.intensity == 0:
            return self.steps >= self.learning_starts
        if not self._together:
            return self.samples + self.batch_size <= self.due
        others = len(self.updates_L)
        done = int(self.updates_L[learner]) * others * self.batch_size + int(self.waived_L.sum())
        return done + others * self.batch_size <= self.due


def least_slack(*, intensity: float, batch_size: int, steps_at_once: int, steps_kept_back: int) -> float:
    """Returns the smallest `slack` with which neither side can wait for the other for ever.

    When all actors wait, the samples that are due and stored must be enough for one more update.

    Args:
        steps_at_once: steps that all actors together commit at once.
        steps_kept_back: steps that are counted and cannot be sampled yet, because their returns are not complete.
    """
    return batch_size + intensity * (steps_at_once + steps_kept_back)


def check_slack(given: float, least: float) -> None:
    """Raises UsageError where a given slack would stop both sides."""
    if given < least:
        raise UsageError(
            f"--rate-limit-tolerance is {given:g}: acting and learning would wait for each other "
            f"without end; it must be at least {least:g} with this batch, intensity and number of envs (0 chooses)"
        )
