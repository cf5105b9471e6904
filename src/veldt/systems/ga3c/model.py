"""GA3C's model: the one network, threads that answer with it, and threads that teach it (Babaeizadeh et al. 2017).

    requests ==> predictors (N_P) --+
                                    +-- one network on one device
    rollouts ==> trainers (N_T) ----+
                 tuner: how many of each

An update is made by one trainer at a time; the others put their batches together meanwhile. Predictors wait for
nobody: an action may be chosen by some parameters from before an update and others from after it, as in the paper's own
implementation. What is recorded of it is what was really computed, with the number of updates before it began.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.base import OnPolicy
from veldt.algorithms.rollout import Observation
from veldt.config.ga3c_settings import Ga3cConfig
from veldt.envs.seeding import SHUFFLE, derive_seed
from veldt.exchange.inference import InferenceEdge
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.slots import Slots
from veldt.exchange.weights import Weights
from veldt.networks.recurrent import RecurrentForward
from veldt.runs.latest_checkpoint import newest_checkpoint
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.sampling.sampler import check_actions
from veldt.systems.ga3c.rollout_queue import RolloutQueue
from veldt.systems.ga3c.thread_tuning import ThreadTuning
from veldt.systems.ga3c.worker_pool import WorkerPool
from veldt.systems.roles.learner import LearnerPlan, LearnerRole

_TURN_S = 0.02  # seconds between looks of the main thread, which only watches
_WAIT_S = 0.25  # at most that long a thread waits for work
_END_S = 5.0  # for a thread to end its turn


@dataclass(frozen=True, kw_only=True)
class ModelPlan(LearnerPlan):
    """`least` are the rollouts that a trainer waits for."""

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
    """The role: answers and learns until it is told to stop."""
    Model(control, plan, inference, slots, rate_limiter, weights).run()


class Model(LearnerRole):
    """See the module's text; its threads begin with `run`."""

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
        self._intake = RolloutQueue(slots.consumer(), plan.spec, plan.least, self._device)
        self._updating = threading.Lock()  # of parameters, and of all that is counted of updates
        predictors = WorkerPool("predictor", settings.most_predictors, settings.predictors, self.predict)
        trainers = WorkerPool("trainer", settings.most_trainers, settings.trainers, self.train)
        self._crews, self._moved = (predictors, trainers), set[WorkerPool]()  # and those that have gone on
        checkpoint = None if plan.run is None else newest_checkpoint(plan.run)
        kept = None if checkpoint is None else checkpoint.meta["units"].get(str(plan.rank))
        self._tuning = ThreadTuning(
            control, plan.config, self._server, self._intake, predictors, trainers, kept
        )

    def run(self) -> None:
        for crew in self._crews:
            crew.start()
        try:
            super().run()
        finally:
            for crew in self._crews:
                crew.stop(_END_S)

    def step(self) -> None:
        """Only watches: threads do the work."""
        self._control.sleep(_TURN_S)
        self._tuning.poll(time.monotonic())

    def is_progressing(self) -> bool:
        """While one of its threads hangs, the model gives no sign of life."""
        self._moved |= {crew for crew in self._crews if crew.check()}
        if len(self._moved) < len(self._crews):
            return False
        self._moved = set()
        return True

    def source_metrics(self) -> dict[str, float]:
        return self._tuning.metrics(time.monotonic())

    def _extra_state(self) -> dict[str, Any]:
        return {"unit": self._tuning.state()}

    def _send_snapshot_part(self) -> None:
        if self._control.requested_snapshot not in (0, self._said_snapshot):
            with self._updating:
                super()._send_snapshot_part()

    def _send_metrics(self, *, is_due: bool) -> None:
        if is_due:
            with self._updating:
                super()._send_metrics(is_due=True)

    @torch.no_grad()
    def predict(self) -> None:
        """A predictor's turn."""
        requests = self._server.take(
            self._settings.prediction_batch, _WAIT_S, self._settings.prediction_wait / 1000
        )
        if requests is None:
            return
        agent_R, version = requests.agent_R, self._learner.updates
        asked = {name: self._tensor(array[agent_R]) for name, array in self._server.requests.items()}
        forward, memory = self._forward, None
        if "memory" in asked:
            forward = memory = RecurrentForward(self._forward, asked["memory"], asked["begins"].unsqueeze(0))
        action, said = self._algorithm.act(forward, self._observation(asked), asked["noise"])
        answers = self._server.answers
        answers["action"][agent_R], answers["version"][agent_R] = check_actions(action), version
        for name in answers.keys() & said.keys():
            answers[name][agent_R] = said[name].cpu().numpy()
        if memory is not None:
            answers["memory"][agent_R] = memory.memory_BM.cpu().numpy()
        self._server.reply(requests)

    def _observation(self, asked: Mapping[str, Tensor]) -> Observation:
        spec = self._plan.spec
        fields = {}
        for name, field in spec.observation.items():
            tensor = asked[f"observation/{name}"]
            fields[name] = tensor.permute(0, 3, 1, 2) if field.stack > 1 else tensor
        return fields if spec.is_dict else fields[""]

    def train(self) -> None:
        """A trainer's turn."""
        unrolls = self._intake.take(_WAIT_S)
        if unrolls is None or not unrolls.rows.valid.any():
            return
        rows, rollout = unrolls.rows, unrolls.rollout()
        with self._updating:
            seed = derive_seed(self._plan.config.run.seed, SHUFFLE, self._learner.updates)
            generator = torch.Generator().manual_seed(seed)
            for batch in self._on_policy.minibatches(self._forward, rollout, generator):
                self.update(batch, rows.version[rows.valid], rows.reward.size)
            self.publish()

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)
