"""A second learner on the first one's replay buffer, which alone acts (Stooke & Abbeel 2018, section 5.5).

Both begin with the same weights and use each step equally often, each with batches of its own size and draws. Nothing
of the second one changes the first, so that a run is the same with and without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from veldt.algorithms.base import OffPolicy
from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config.system_settings import SynchronousConfig
from veldt.exchange.gradients import NoAllReduce
from veldt.learning.batch_sources import BatchShare, ReplaySource
from veldt.learning.learner import Learner
from veldt.learning.normalisation import copy_observation_statistics
from veldt.learning.snapshot import Groups
from veldt.networks.flat import FlatParameters
from veldt.runs.checkpoint_files import Checkpoint
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.messages import SECOND_OPTIMISER, SECOND_WEIGHTS
from veldt.systems.roles.sampler_learner import SamplerLearner
from veldt.systems.roles.trained_network import TrainedNetwork
from veldt.tracking.stage_clock import StageClock

_TARGET = "second-target"
_OWN_DRAWS = 1_000  # added to the run's seed for the draws of its batches


class SecondLearner:
    """A network, an optimiser and target networks of its own, and the first one's replay buffer."""

    def __init__(self, run_plan: RunPlan, first: SamplerLearner, clock: StageClock) -> None:
        own = TrainedNetwork.of(_with_own_batches(run_plan), _unsaid)
        algorithm, replay, run = own.algorithm, first.batch_source, run_plan.config.run
        assert isinstance(algorithm, OffPolicy) and isinstance(replay, ReplaySource)
        self._algorithm, self._steps, self._slot = algorithm, run.steps, first.slot
        self._clock, self._first, self._own = clock, first, own
        self._learner = Learner(algorithm, own.forward, own.parameters, NoAllReduce(), own.targets)
        share = BatchShare(
            algorithm.batch_size, algorithm.learning_starts, run.seed + _OWN_DRAWS, NoAllReduce()
        )
        self._source = own.replay_source(first.slot, replay.buffer, share, clock, fills=False)

    def learn(self, before: int, steps: int) -> None:
        """Makes the updates that are due after `steps` agent steps, of which `before` came before the last rollout."""
        progress = min(1.0, before / self._steps)
        rate = self._algorithm.learning_rate(progress, self._slot.steps * self._slot.width)
        for batch, _ in self._source.batches(steps, progress):
            with self._clock("train"):
                self._learner.update(batch, progress, rate)
        # The first one has counted the rollout after its own updates on it, for the next ones.
        copy_observation_statistics(self._own.network, self._first.network)

    def weights(self) -> dict[str, np.ndarray]:
        """Returns fp32 weights by name."""
        return self._learner.weights()

    def metrics(self) -> dict[str, float]:
        """Returns the L2 norms of both learners' parameters and of their difference."""
        first_P, own_P = (_vector(one.parameters) for one in (self._first, self._own))
        return {
            "second/weights_norm": float(own_P.norm()),
            "second/first_weights_norm": float(first_P.norm()),
            "second/distance": float((first_P - own_P).norm()),
        }

    def groups(self) -> Groups:
        """Returns the groups of a checkpoint that have its state, besides the counters."""
        learner = self._learner
        groups = {
            SECOND_WEIGHTS: learner.weights(),
            SECOND_OPTIMISER: learner.optimiser_state(),
            _TARGET: learner.target_weights(),
        }
        return {name: arrays for name, arrays in groups.items() if arrays}

    def counters(self) -> dict[str, Any]:
        """Returns the plain values of a checkpoint."""
        return {"updates": self._learner.updates, "experience": self._source.counters()}

    def restore(self, checkpoint: Checkpoint, counters: Mapping[str, Any]) -> None:
        """Restores all state, after the first learner's with the replay buffer. Without rows, it waits as that does."""
        groups = checkpoint.groups
        self._learner.load(groups[SECOND_WEIGHTS], groups[SECOND_OPTIMISER], groups.get(_TARGET, {}))
        self._learner.updates = int(counters["updates"])
        self._source.load(counters["experience"])
        if not len(self._source.buffer):
            self._source.refill(checkpoint.step)


def _with_own_batches(run_plan: RunPlan) -> RunPlan:
    """Returns the run plan with batches of the second learner's size, and all that follows from it."""
    config = run_plan.config
    assert isinstance(config.learn, OffPolicyConfig) and isinstance(config.roles, SynchronousConfig)
    learn = dataclasses.replace(config.learn, batch_size=config.roles.second_batch_size)
    return dataclasses.replace(run_plan, config=dataclasses.replace(config, learn=learn))


def _vector(parameters: FlatParameters) -> Tensor:
    return parameters.fp32_params.detach()


def _unsaid(text: str) -> None:
    """For notes about the network and the rewards, of which the first learner has the same."""
