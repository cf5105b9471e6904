"""GA3C's model: one network, predictor threads that answer with it, and trainer threads that update it.

    requests ==> predictors (N_P) --+
                                    +-- one network on one device
    rollouts ==> trainers (N_T) ----+
                 tuner: how many of each

Babaeizadeh et al. 2017. One trainer at a time makes an update; the others meanwhile assemble their batches. Predictors
take no lock: an action may be computed with some parameters from before an update and others from after it, as in the
paper's own implementation. Recorded are the outputs really computed, with the number of updates before it began.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.base import OnPolicy
from veldt.config.ga3c_settings import Ga3cConfig
from veldt.envs.seeding import SHUFFLE, derive_seed
from veldt.exchange.inference import InferenceEdge
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.slots import Slots
from veldt.exchange.weights import Weights
from veldt.learning.checked_results import checked_minibatches
from veldt.learning.normalisation import update_observation_statistics
from veldt.networks.recurrent import RecurrentForward
from veldt.runtime.devices import flush_denormals, to_device
from veldt.runtime.roles import Control
from veldt.sampling.checked_actions import checked_act
from veldt.sampling.observations import as_network_input
from veldt.systems.ga3c.rollout_queue import RolloutQueue
from veldt.systems.ga3c.thread_tuning import ThreadTuning
from veldt.systems.ga3c.worker_pool import WorkerPool
from veldt.systems.roles.learner import LearnerPlan, LearnerRole

_TURN_S = 0.02  # seconds between checks of the main thread, which only monitors
_WAIT_S = 0.25  # longest time that a thread waits for work
_END_S = 5.0  # for a thread to finish its turn


@dataclass(frozen=True, kw_only=True)
class ModelPlan(LearnerPlan):
    """`least` is the number of rollouts that a trainer waits for."""

    least: int


@flush_denormals()
def run_model(
    control: Control,
    plan: ModelPlan,
    inference: InferenceEdge,
    slots: Slots,
    rate_limiter: RateLimiter,
    weights: Weights | None = None,
) -> None:
    """Entry point of the role: answers and learns until it is asked to stop."""
    Model(control, plan, inference, slots, rate_limiter, weights).run()


class Model(LearnerRole):
    """See the module; its threads start with `run`."""

    def __init__(
        self,
        control: Control,
        plan: ModelPlan,
        inference: InferenceEdge,
        slots: Slots,
        rate_limiter: RateLimiter,
        weights: Weights | None,
    ) -> None:
        super().__init__(control, plan, weights, rate_limiter)
        settings = plan.config.roles
        assert isinstance(settings, Ga3cConfig) and isinstance(self._algorithm, OnPolicy)
        self._on_policy, self._settings = self._algorithm, settings
        self._server = inference.server()
        most = None if settings.group_rollouts else 1
        self._intake = RolloutQueue(slots.consumer(), plan.spec, plan.least, self._device, most)
        self._updating = threading.Lock()  # guards the parameters and all counts of updates
        predictors = WorkerPool("predictor", settings.most_predictors, settings.predictors, self.predict)
        trainers = WorkerPool("trainer", settings.most_trainers, settings.trainers, self.train)
        self._pools = predictors, trainers
        self._progressed = set[WorkerPool]()  # those that made progress
        self._tuning = ThreadTuning(
            control,
            plan.config,
            self._server,
            self._intake,
            lambda: self._learner.updates,
            predictors,
            trainers,
            self._saved_state,
        )

    def run(self) -> None:
        for pool in self._pools:
            pool.start()
        try:
            super().run()
        finally:
            for pool in self._pools:
                pool.stop(_END_S)

    def step(self) -> None:
        """Only monitors: threads do the work."""
        self._control.sleep(_TURN_S)
        self._tuning.poll(time.monotonic())

    def is_progressing(self) -> bool:
        """Whether all threads have made progress: if one of them hangs, the model sends no heartbeat."""
        self._progressed |= {pool for pool in self._pools if pool.check()}
        if len(self._progressed) < len(self._pools):
            return False
        self._progressed = set()
        return True

    def source_metrics(self) -> dict[str, float]:
        return self._tuning.metrics(time.monotonic())

    def _extra_state(self) -> dict[str, Any]:
        return self._tuning.state()

    def _send_snapshot_part(self) -> None:
        if self._control.requested_snapshot not in (0, self._sent_snapshot):
            with self._updating:
                super()._send_snapshot_part()

    def _send_metrics(self, *, is_due: bool) -> None:
        if is_due:
            with self._updating:
                super()._send_metrics(is_due=True)

    @torch.no_grad()
    def predict(self) -> None:
        """Runs one turn of a predictor: answers a batch of requests."""
        requests = self._server.take(
            self._settings.prediction_batch, _WAIT_S, self._settings.prediction_wait / 1000
        )
        if requests is None:
            return
        agent_R, version = requests.agent_R, self._learner.updates
        inputs = {name: self._tensor(array[agent_R]) for name, array in self._server.requests.items()}
        forward, recurrent = self._forward, None
        if "recurrent_state" in inputs:
            forward = recurrent = RecurrentForward(
                self._forward, inputs["recurrent_state"], inputs["begins"].unsqueeze(0)
            )
        spec = self._plan.spec
        observation = as_network_input(
            spec, {name: inputs[f"observation/{name}"] for name in spec.observation}
        )
        returned = self._algorithm.act(forward, observation, inputs["noise"])
        answers = self._server.answers
        action, outputs = checked_act(returned, len(agent_R), spec.action, self._algorithm)
        answers["action"][agent_R], answers["version"][agent_R] = action, version
        for name in answers.keys() & outputs.keys():
            answers[name][agent_R] = outputs[name].cpu().numpy()
        if recurrent is not None:
            answers["recurrent_state"][agent_R] = recurrent.state_BM.cpu().numpy()
        self._server.reply(requests)

    def train(self) -> None:
        """Runs one turn of a trainer: makes the updates on a batch of rollouts."""
        unrolls = self._intake.take(_WAIT_S)
        if unrolls is None or not unrolls.rows.valid.any():
            return
        rows, rollout = unrolls.rows, unrolls.rollout()
        with self._updating:
            rollout = self.with_normalised_rewards(rollout, unrolls)
            seed = derive_seed(self._plan.config.run.seed, SHUFFLE, self._learner.updates)
            generator = torch.Generator().manual_seed(seed)
            batches = self._on_policy.minibatches(self._forward, rollout, generator)
            for batch in checked_minibatches(batches, self._on_policy):
                self.update(batch, rows.version[rows.valid], rows.reward.size)
            update_observation_statistics(self._network, rows, self._statistics)
            self.publish()

    def _tensor(self, array: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(array), self._device)
