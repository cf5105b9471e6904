"""The learner of Ape-X: batches from shards, weights to actors (Horgan et al. 2018, algorithm 2)."""

from __future__ import annotations

import numpy as np

from veldt.algorithms.base import OffPolicy
from veldt.exchange.pace import Pace
from veldt.exchange.replay import Batch, ReplayEnds, ReplayIn
from veldt.exchange.weights import Weights
from veldt.replay.memory import Sample
from veldt.runtime.devices import subnormals_flushed
from veldt.runtime.roles import Control
from veldt.simulators.seeding import REPLAY, derive_seed
from veldt.simulators.spec import SimulatorSpec
from veldt.systems.experience import to_transitions
from veldt.systems.learner_role import LearnerPlan, LearnerRole

_WAIT_S = 0.25  # seconds without a beat, while a batch is awaited
_SLEEP_S = 0.002  # seconds between looks whether learning may go on


@subnormals_flushed()
def run_apex_learner(
    control: Control, plan: LearnerPlan, weights: Weights, edge: ReplayEnds, pace: Pace
) -> None:
    """The role: learns until it is told to stop."""
    _ApexLearner(control, plan, weights, edge.client(), pace).run()


class _ApexLearner(LearnerRole):
    def __init__(
        self, control: Control, plan: LearnerPlan, weights: Weights, client: ReplayIn, pace: Pace
    ) -> None:
        super().__init__(control, plan, weights, pace)
        assert isinstance(self._algorithm, OffPolicy) and plan.config.replay is not None
        self._off_policy, self._replay, self._client = self._algorithm, plan.config.replay, client
        self._noise = self._off_policy.update_noise(self._network)
        self._ordered = self._learner.updates

    def step(self) -> None:
        self._order()
        if self._pace.may_learn(self._plan.rank):
            self._learn()
        else:  # acting is to catch up first
            with self._clock("wait"):
                self._control.sleep(_SLEEP_S)

    def experience(self) -> dict[str, float]:
        return {
            "replay/transitions": float(self._client.rows),
            "replay/dropped_priorities": float(self._client.dropped),
            "replay/beta": self._replay.beta(self.progress),
        }

    def _order(self) -> None:
        with self._clock("replay"):
            while self._client.order(self._seed(0, self._ordered), 0.0):
                self._ordered += 1

    def _seed(self, purpose: int, number: int) -> int:
        return derive_seed(self._plan.config.run.seed, REPLAY, number, purpose, self._plan.rank)

    def _learn(self) -> None:
        with self._clock("wait"):
            batch = self._client.take(_WAIT_S)
        if batch is None:
            if not self._client.rows:
                self._pace.excuse(
                    self._plan.rank
                )  # else actors that are ahead would wait for this one, which has no data
            return
        with self._clock("replay"):
            sample = _sample(batch, self._plan.spec)
            seed = self._seed(1, self._learner.updates)
            beta = self._replay.beta(self.progress)
            transitions = to_transitions(sample, self._plan.spec, beta, self._noise, seed, self._device)
        with self._clock("train"):
            assert self._target is not None
            targets = self._off_policy.targets(self._forward, self._target, transitions)
        loss = self.update(targets, sample.version_N, len(sample.version_N))
        if loss.priority is not None and self._replay.replay == "prioritised":
            with self._clock("replay"):
                self._client.update(batch, loss.priority.cpu().numpy().astype(np.float64), 0.0)


def _sample(batch: Batch, spec: SimulatorSpec) -> Sample:
    """A batch as one memory would have drawn it; see `batch_layouts`."""
    arrays = batch.arrays

    def observation(which: str) -> dict[str, np.ndarray]:
        fields = {name: arrays[f"{which}/{name}"] for name in spec.observation}
        stacked = {name for name, field in spec.observation.items() if field.stack > 1}
        return {
            name: array.transpose(0, 3, 1, 2) if name in stacked else array for name, array in fields.items()
        }

    return Sample(
        observation=observation("observation"),
        next_observation=observation("next_observation"),
        action_N=arrays["action"],
        reward_N=arrays["reward"],
        discount_N=arrays["discount"],
        mass_N=arrays["mass"],
        key_N=arrays["key"],
        version_N=arrays["version"],
    )
