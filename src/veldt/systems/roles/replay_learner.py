"""The learner of Ape-X: samples batches from shards, publishes weights to actors (Horgan et al. 2018, algorithm 2)."""

from __future__ import annotations

import time

import numpy as np

from veldt.algorithms.base import OffPolicy
from veldt.algorithms.transitions import Transitions
from veldt.envs.seeding import REPLAY, derive_seed
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.replay import ReplayEnds, ReplayIn
from veldt.exchange.weights import Weights
from veldt.learning.checked_loss import required_priority
from veldt.learning.replay_batches import BatchConverter, NoiseWidths, ReplayBatches
from veldt.replay.batch import ReplayBatch
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.systems.roles.learner import LearnerPlan, LearnerRole

_WAIT_S = 0.25  # seconds without a heartbeat while it waits for a batch
_EMPTY_S = 2.0  # seconds until a replay buffer without rows counts as empty
_SLEEP_S = 0.002  # seconds between checks whether learning may continue


@flush_denormals()
def run_replay_learner(
    control: Control, plan: LearnerPlan, weights: Weights, replay: ReplayEnds, rate_limiter: RateLimiter
) -> None:
    """Entry point of the role: learns until it is asked to stop."""
    ReplayLearner(control, plan, weights, replay.client(), rate_limiter).run()


class ReplayLearner(LearnerRole):
    """Learns from batches that it requests from the shards."""

    def __init__(
        self,
        control: Control,
        plan: LearnerPlan,
        weights: Weights | None,
        client: ReplayIn,
        rate_limiter: RateLimiter,
    ) -> None:
        super().__init__(control, plan, weights, rate_limiter)
        assert isinstance(self._algorithm, OffPolicy) and plan.config.replay is not None
        self._off_policy, self._replay, self._client = self._algorithm, plan.config.replay, client
        noise = NoiseWidths.of(self._off_policy, self._network)
        self._converter = BatchConverter(plan.spec, noise, self._device)
        self._num_requested = self._num_taken = self._learner.updates
        self._empty_since = time.monotonic()
        self._batches = ReplayBatches(
            client,
            self._to_transitions,
            self._edge if plan.world_size > 1 and self._replay.is_weighted else None,
            self._device,
            self._clock,
            ahead=self._device.type != "cpu",
        )

    def step(self) -> None:
        self._request_batches()
        if self._rate_limiter.may_learn(self._plan.rank):
            self._learn()
        else:  # acting has to catch up first
            with self._clock("wait"):
                self._control.sleep(_SLEEP_S)

    def source_metrics(self) -> dict[str, float]:
        metrics = {"replay/transitions": float(self._client.rows)}
        if self._replay.is_weighted:
            metrics["replay/beta"] = self._beta()
        if self._replay.uses_priorities:
            metrics["replay/dropped_priorities"] = float(self._client.dropped)
        return metrics

    def _request_batches(self) -> None:
        with self._clock("replay"):
            while self._client.request(self._seed(0, self._num_requested), 0.0):
                self._num_requested += 1

    def _seed(self, purpose: int, number: int) -> int:
        return derive_seed(self._plan.config.run.seed, REPLAY, number, purpose, self._plan.rank)

    def _learn(self) -> None:
        taken = self._batches.take(_WAIT_S)
        if taken is None:
            self._waive_backlog_if_starved()
            return
        self._empty_since = time.monotonic()
        batch, transitions = taken
        with self._clock("train"):
            targets = self._targets.batch(self._off_policy, self._forward, transitions)
        loss = self.update(targets, batch.version_N, len(batch))
        self._batches.prefetch()
        self.publish()
        with self._clock("replay"):
            priority_N = None
            if self._replay.uses_priorities:
                given_N = required_priority(loss.priority, len(batch), self._off_policy, self._replay.replay)
                priority_N = given_N.cpu().numpy().astype(np.float64)
            self._client.give_back(priority_N)

    def _waive_backlog_if_starved(self) -> None:
        """Waives the updates that are due where actors wait for this learner, and it has nothing to learn from.

        Only after a while: a starting shard reports the rows it has restored a moment after it is up.
        """
        now = time.monotonic()
        if self._plan.rank or self._rate_limiter.may_act() or not self._client.is_empty:
            self._empty_since = now
        elif now - self._empty_since > _EMPTY_S:
            self._rate_limiter.waive_backlog()
        if not self._client.rows:  # then no batch can arrive either
            with self._clock("wait"):
                self._control.sleep(_SLEEP_S)

    def _to_transitions(self, batch: ReplayBatch) -> tuple[Transitions, float]:
        seeds = [self._seed(purpose, self._num_taken) for purpose in (1, 2)]
        self._num_taken += 1
        beta = self._beta()
        return self._converter.to_transitions(batch, beta, seeds), beta

    def _beta(self) -> float:
        return self._replay.beta(self.progress)
