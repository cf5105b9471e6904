"""Measures GA3C's threads, and sets their numbers by the tuner.

The paper's TPS is "the rate at which we remove batches from the training queue, which corresponds to the rate of model
updates" (Babaeizadeh et al. 2017, section 2). Where each rollout is an update of its own, the tuner maximises updates
per second. Where an update takes all rollouts that wait, the two differ: it maximises rollouts per second then, because
more updates from the same rollouts would only be smaller ones.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from veldt.config.ga3c_settings import Ga3cConfig
from veldt.config.train_config import TrainConfig
from veldt.envs.seeding import ACTOR, derive_seed
from veldt.exchange.inference import InferenceServer
from veldt.exchange.queue_stats import QueueStats
from veldt.formatting import counted
from veldt.runtime.role_messages import Note
from veldt.runtime.roles import Control
from veldt.systems.ga3c.rollout_queue import RolloutQueue
from veldt.systems.ga3c.tuner import Decision, Setting, Tuner
from veldt.systems.ga3c.worker_pool import WorkerPool


@dataclass(frozen=True)
class _Counts:
    """Counts of the server's requests, of the rollout queue, and of the model's updates: at one moment of a clock, or
    between two of them (`seconds`)."""

    seconds: float
    served: QueueStats
    taken: QueueStats
    updates: int

    def __sub__(self, before: _Counts) -> _Counts:
        return _Counts(
            self.seconds - before.seconds,
            self.served - before.served,
            self.taken - before.taken,
            self.updates - before.updates,
        )

    def per_second(self, count: int) -> float:
        return count / max(1e-9, self.seconds)


class ThreadTuning:
    """Measures predictors and trainers, reports metrics, and changes the numbers of threads when that is due.

    Args:
        updates: returns the number of the model's updates.
        former: the setting of a former incarnation, if there was one, among other state of the model.
    """

    def __init__(
        self,
        control: Control,
        config: TrainConfig,
        server: InferenceServer,
        intake: RolloutQueue,
        updates: Callable[[], int],
        predictors: WorkerPool,
        trainers: WorkerPool,
        former: Mapping[str, Any],
    ) -> None:
        settings, agents = config.roles, config.envs.num_envs
        assert isinstance(settings, Ga3cConfig)
        self._control, self._server, self._intake, self._updates = control, server, intake, updates
        self._predictors, self._trainers = predictors, trainers
        self._interval_s, self._window_s = settings.tuner_interval, config.run.log_every
        self._counts_updates = not settings.group_rollouts
        begin = {"predictors": settings.predictors, "trainers": settings.trainers, "agents": agents}
        bounds = {"predictors": (1, settings.most_predictors), "trainers": (1, settings.most_trainers)}
        if settings.tune_agents:
            bounds["agents"] = (1, agents)
        setting = {name: int(former.get(name, number)) for name, number in begin.items()}
        self._tuner = Tuner(setting, bounds, derive_seed(config.run.seed, ACTOR))
        self._set(self._tuner.setting)
        self._began = self._counts(time.monotonic())
        self._recent = deque([self._began])

    def poll(self, now: float) -> None:
        """Ends an interval of the tuner, if it is over."""
        if not self._began.taken.items:
            self._began = self._counts(now)  # intervals start with the first rollout that is learned from
        if not self._interval_s or now - self._began.seconds < self._interval_s:
            return
        counts = self._counts(now)
        decision = self._tuner.record(self._training_rate(counts - self._began))
        if decision is not None:
            self._control.send(
                Note(_describe(decision, "updates/s" if self._counts_updates else "rollouts/s"), "tuner")
            )
        self._set(self._tuner.setting)
        self._began = counts

    def metrics(self, now: float) -> dict[str, float]:
        """Returns rates and means of the last seconds, and the numbers of predictors, trainers and agents."""
        counts = self._counts(now)
        self._recent.append(counts)
        while len(self._recent) > 2 and now - self._recent[1].seconds >= self._window_s:
            self._recent.popleft()
        recent = counts - self._recent[0]
        return {
            "time/rollouts_per_second": recent.per_second(recent.taken.items),
            "time/predictions_per_second": recent.per_second(recent.served.items),
            "system/prediction_queue_length": recent.served.mean_waiting,
            "system/training_queue_length": recent.taken.mean_waiting,
            "system/prediction_batch_size": recent.served.mean_batch_size,
            "system/training_batch_size": recent.taken.mean_batch_size,
            **{f"system/{name}": float(number) for name, number in self._tuner.setting.items()},
        }

    def _training_rate(self, interval: _Counts) -> float:
        """The rate that the tuner maximises; see the module."""
        return interval.per_second(interval.updates if self._counts_updates else interval.taken.items)

    def state(self) -> dict[str, int]:
        """Returns the setting that the tuner has accepted."""
        return dict(self._tuner.accepted)

    def _counts(self, now: float) -> _Counts:
        return _Counts(now, self._server.stats, self._intake.stats, self._updates())

    def _set(self, setting: Setting) -> None:
        self._predictors.activate(setting["predictors"])
        self._trainers.activate(setting["trainers"])
        self._server.activate(setting["agents"])


def _describe(decision: Decision, unit: str) -> str:
    name = next(name for name, number in decision.moved.items() if number != decision.previous[name])
    moved, previous = (
        " and ".join(f"{rate:,.1f}" for rate in each)
        for each in (decision.moved_rates, decision.previous_rates)
    )
    tried, before = counted(decision.moved[name], name.removesuffix("s"), name), decision.previous[name]
    became = "kept" if decision.is_accepted else "reverted"
    return f"{tried} made {moved} {unit}, and {before} made {previous}: {became}"
