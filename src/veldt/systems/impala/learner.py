"""The learner of IMPALA: unrolls from actors, weights back to them (Espeholt et al. 2018, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veldt.config.system_settings import ImpalaConfig
from veldt.envs.seeding import REPLAY, derive_seed
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.slots import Arrays, SlotIn, Slots
from veldt.exchange.weights import Weights
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout
from veldt.sampling.unrolls import Unrolls
from veldt.systems.roles.learner import LearnerPlan, LearnerRole

_WAIT_S = 0.25  # seconds without a beat, while an unroll is awaited


@dataclass(frozen=True, kw_only=True)
class ImpalaLearnerPlan(LearnerPlan):
    """`slot` are the arrays of an actor's unrolls, `batch` those of all that one update learns from."""

    slot: Mapping[str, Layout]
    batch: Mapping[str, Layout]


@flush_denormals()
def run_impala_learner(
    control: Control, plan: ImpalaLearnerPlan, weights: Weights, slots: Slots, rate_limiter: RateLimiter
) -> None:
    """The role: learns until it is told to stop."""
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
        self._from_replay = settings.drawn_slots(plan.config.envs.num_envs)
        self._old = UnrollReplay(
            plan.slot, settings.replay_unrolls // self._width if self._from_replay else 0
        )
        self._column = self._fresh = 0  # of this batch: columns that are there, slots that are kept already

    def step(self) -> None:
        with self._clock("wait"):
            taken = self._incoming.take(_WAIT_S)
        if taken is not None:
            with self._clock("replay"):
                self._put(taken.arrays)
                self._incoming.release(taken.ring)
            if self._column == self._columns - self._drawn * self._width:
                self._learn()

    def source_metrics(self) -> dict[str, float]:
        return {"replay/unrolls": float(len(self._old) * self._width)} if self._from_replay else {}

    def _put(self, slot: Arrays) -> None:
        self._batch.put(self._column, slot)
        self._column += self._width
        if self._from_replay:
            self._old.keep(slot)
            self._fresh += 1

    @property
    def _drawn(self) -> int:
        """Slots of this batch that are drawn: none, before anything has been learned from."""
        return self._from_replay if len(self._old) > self._fresh else 0

    def _learn(self) -> None:
        with self._clock("replay"):
            seed = derive_seed(self._plan.config.run.seed, REPLAY, self._learner.updates, self._plan.rank)
            for slot in self._old.sample(self._drawn, self._fresh, seed):
                self._batch.put(self._column, slot)
                self._column += self._width
            rollout = self._batch.rollout()
        rows = self._batch.rows
        self.update(rollout, rows.version[rows.valid], rows.reward.size)
        self.publish()
        self._column = self._fresh = 0


class UnrollReplay:
    """The last `size` slots, drawn all alike (Espeholt et al. 2018, section 5.2.2: experience replay)."""

    def __init__(self, layouts: Mapping[str, Layout], size: int) -> None:
        self._arrays = {
            name: np.empty((size, *layout.shape), layout.dtype) for name, layout in layouts.items()
        }
        self._size, self._kept = size, 0

    def __len__(self) -> int:
        return min(self._kept, self._size)

    def keep(self, slot: Arrays) -> None:
        """In the place of the oldest."""
        for name, array in self._arrays.items():
            np.copyto(array[self._kept % self._size], slot[name])
        self._kept += 1

    def sample(self, count: int, fresh: int, seed: int) -> list[Arrays]:
        """`count` of them, with replacement, the `fresh` newest left out."""
        if not count:
            return []
        back = np.random.default_rng(seed).integers(0, len(self) - fresh, count)
        places = ((self._kept - 1 - fresh - back) % self._size).tolist()
        return [{name: array[place] for name, array in self._arrays.items()} for place in places]
