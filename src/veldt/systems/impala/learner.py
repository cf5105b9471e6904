"""The learner of IMPALA: learns from actors' unrolls, publishes weights to them (Espeholt et al. 2018, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veldt.config.impala_settings import ImpalaConfig
from veldt.envs.seeding import REPLAY, derive_seed
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.slots import Arrays, SlotIn, Slots
from veldt.exchange.weights import Weights
from veldt.learning.normalisation import update_observation_statistics
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout
from veldt.sampling.unrolls import Unrolls
from veldt.systems.roles.learner import LearnerPlan, LearnerRole

_WAIT_S = 0.25  # seconds without a heartbeat while it waits for an unroll


@dataclass(frozen=True, kw_only=True)
class ImpalaLearnerPlan(LearnerPlan):
    """`slot` are the arrays of one actor's unrolls, `batch` those of all unrolls of one update."""

    slot: Mapping[str, Layout]
    batch: Mapping[str, Layout]


@flush_denormals()
def run_impala_learner(
    control: Control, plan: ImpalaLearnerPlan, weights: Weights, slots: Slots, rate_limiter: RateLimiter
) -> None:
    """Entry point of the role: learns until it is asked to stop."""
    _ImpalaLearner(control, plan, weights, slots.consumer(), rate_limiter).run()


class _ImpalaLearner(LearnerRole):
    def __init__(
        self,
        control: Control,
        plan: ImpalaLearnerPlan,
        weights: Weights,
        incoming: SlotIn,
        rate_limiter: RateLimiter,
    ) -> None:
        super().__init__(control, plan, weights, rate_limiter)
        settings = plan.config.roles
        assert isinstance(settings, ImpalaConfig)
        self._incoming = incoming
        self._batch = Unrolls.allocate(plan.spec, plan.batch, self._device)
        self._width = plan.slot["reward"].shape[1]
        self._columns = plan.batch["reward"].shape[1]
        self._num_replayed = settings.drawn_slots(plan.config.envs.num_envs)
        self._replay = UnrollReplay(
            plan.slot, settings.replay_unrolls // self._width if self._num_replayed else 0
        )
        self._column = self._fresh = 0  # of this batch: columns filled, slots already put into the replay

    def step(self) -> None:
        with self._clock("wait"):
            received = self._incoming.take(_WAIT_S)
        if received is not None:
            with self._clock("replay"):
                self._put(received.arrays)
                self._incoming.release(received.ring)
            if self._column == self._columns - self._drawn * self._width:
                self._learn()

    def source_metrics(self) -> dict[str, float]:
        return {"replay/unrolls": float(len(self._replay) * self._width)} if self._num_replayed else {}

    def _put(self, slot: Arrays) -> None:
        self._batch.put(self._column, slot)
        self._column += self._width
        if self._num_replayed:
            self._replay.keep(slot)
            self._fresh += 1

    @property
    def _drawn(self) -> int:
        """Slots of this batch that are drawn from the replay: none before the first update."""
        return self._num_replayed if len(self._replay) > self._fresh else 0

    def _learn(self) -> None:
        with self._clock("replay"):
            seed = derive_seed(self._plan.config.run.seed, REPLAY, self._learner.updates, self._plan.rank)
            drawn = self._drawn
            for slot in self._replay.sample(drawn, self._fresh, seed):
                self._batch.put(self._column, slot)
                self._column += self._width
            rollout = self._batch.rollout()
        rows = self._batch.rows
        new = slice(0, self._columns - drawn * self._width)  # those drawn have been counted before
        rollout = self.with_normalised_rewards(rollout, self._batch, new)
        # Of all rows: in unrolls of one step, envs whose episodes end together have only reset steps in a batch.
        self.update(rollout, rows.version, rows.reward.size)
        update_observation_statistics(self._network, rows.part(new), self._statistics)
        self.publish()
        self._column = self._fresh = 0


class UnrollReplay:
    """The last `size` slots, sampled uniformly (Espeholt et al. 2018, section 5.2.2: experience replay)."""

    def __init__(self, layouts: Mapping[str, Layout], size: int) -> None:
        self._arrays = {
            name: np.empty((size, *layout.shape), layout.dtype) for name, layout in layouts.items()
        }
        self._size, self._num_stored = size, 0

    def __len__(self) -> int:
        return min(self._num_stored, self._size)

    def keep(self, slot: Arrays) -> None:
        """Stores a slot in the oldest one's stead."""
        for name, array in self._arrays.items():
            np.copyto(array[self._num_stored % self._size], slot[name])
        self._num_stored += 1

    def sample(self, count: int, fresh: int, seed: int) -> list[Arrays]:
        """Returns `count` stored slots, drawn with replacement, without the `fresh` newest."""
        if not count:
            return []
        back = np.random.default_rng(seed).integers(0, len(self) - fresh, count)
        indices = ((self._num_stored - 1 - fresh - back) % self._size).tolist()
        return [{name: array[index] for name, array in self._arrays.items()} for index in indices]
