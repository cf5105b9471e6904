"""The learner of Ape-X: batches from shards, weights to actors (Horgan et al. 2018, algorithm 2)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.agent import make_network
from veldt.algorithms.base import Forward, OffPolicy
from veldt.config import TrainConfig
from veldt.exchange.gradients import OneLearner
from veldt.exchange.pace import Pace
from veldt.exchange.replay import Batch, ReplayEnds, ReplayIn
from veldt.exchange.weights import Weights
from veldt.networks.build import TorsoFactory
from veldt.networks.flat import FlatParameters
from veldt.networks.precision import CompiledForward, Network, apply_precision
from veldt.replay.memory import Sample
from veldt.runtime.devices import subnormals_flushed
from veldt.runtime.memory import keep_freed_memory
from veldt.runtime.roles import Control
from veldt.simulators.seeding import REPLAY, derive_seed
from veldt.simulators.spec import SimulatorSpec
from veldt.systems.experience import to_transitions
from veldt.systems.latest import newest_checkpoint
from veldt.systems.learner import Learner
from veldt.systems.stages import StageClock

_WAIT_S = 0.25  # seconds without a beat, while a batch is awaited
_SLEEP_S = 0.002  # seconds between looks whether learning may go on
_SAY_S = 0.5  # seconds between messages with figures


@dataclass(frozen=True)
class LearnerPlan:
    """`publish_every` counts updates. `run` is the run's directory, whose newest checkpoint it goes on from."""

    config: TrainConfig
    spec: SimulatorSpec
    network: TorsoFactory | None
    publish_every: int
    run: Path | None = None


@subnormals_flushed()
def run_learner(control: Control, plan: LearnerPlan, weights: Weights, edge: ReplayEnds, pace: Pace) -> None:
    """The role: learns until it is told to stop."""
    keep_freed_memory()
    learner = _ApexLearner(control, plan, weights, edge.client(), pace)
    while not control.stopping:
        control.beat()
        learner.look()
        if pace.may_learn():
            learner.step()
        else:
            learner.wait()


class _ApexLearner:
    def __init__(
        self,
        control: Control,
        plan: LearnerPlan,
        weights: Weights,
        client: ReplayIn,
        pace: Pace,
    ) -> None:
        self._control, self._plan, self._weights, self._client, self._pace = (
            control,
            plan,
            weights,
            client,
            pace,
        )
        config = plan.config
        torch.set_num_threads(max(1, config.run.threads))
        self._device = torch.device(config.run.device)
        algorithm = config.make_algorithm(plan.spec.action)
        assert isinstance(algorithm, OffPolicy) and config.replay is not None
        self._algorithm, self._replay = algorithm, config.replay
        network, self._parameters = self._made()
        target, target_parameters = self._made()
        self._forward, self._target = self._compiled(network), self._compiled(target)
        self._learner = Learner(algorithm, self._forward, self._parameters, OneLearner(), target_parameters)
        self._noise = algorithm.update_noise(network)
        self._clock, self._figures = StageClock(), _Figures()
        self._said_number = 0
        checkpoint = None if plan.run is None else newest_checkpoint(plan.run)
        if checkpoint is not None:
            groups = checkpoint.groups
            self._learner.load(groups["weights"], groups["optimiser"], groups.get("target", {}))
        # Versions only grow: updates that were lost with a former life are counted, too.
        self._learner.updates = self._ordered = int(pace.updates_L[0])
        weights.publish(self._learner.updates, self._parameters.arrays())

    def _made(self) -> tuple[Network, FlatParameters]:
        network = make_network(self._plan.config, self._plan.spec, self._plan.network)
        return network, apply_precision(network, self._plan.config.run.precision, self._device)

    def _compiled(self, network: Network) -> Forward:
        if not self._plan.config.run.compile:
            return network
        return CompiledForward(network, lambda text: self._control.say("note", about="note", text=text))

    def wait(self) -> None:
        """Acting is to catch up first."""
        self._order()
        with self._clock("wait"):
            self._control.sleep(_SLEEP_S)
        self._say_how_it_goes()

    def step(self) -> None:
        """One update, if there is a batch for it."""
        self._order()
        with self._clock("wait"):
            batch = self._client.take(_WAIT_S)
        if batch is None:
            if not self._client.rows:
                self._pace.excuse(0)  # else actors that are ahead would wait for this one, which has no data
            return
        config, learner = self._plan.config, self._learner
        progress = min(1.0, self._pace.steps / config.run.steps)
        with self._clock("replay"):
            sample = _sample(batch, self._plan.spec)
            seed = derive_seed(config.run.seed, REPLAY, learner.updates, 1)
            beta = self._replay.beta(progress)
            transitions = to_transitions(sample, self._plan.spec, beta, self._noise, seed, self._device)
        with self._clock("train"):
            targets = self._algorithm.targets(self._forward, self._target, transitions)
            rate = self._algorithm.learning_rate(progress, self._algorithm.batch)
            loss = learner.update(targets, progress, rate)
        self._figures.add(loss.figures, learner.updates - 1 - sample.version_N, rate)
        with self._clock("replay"):
            if loss.priority is not None and self._replay.replay == "prioritised":
                self._client.update(batch, loss.priority.cpu().numpy().astype(np.float64), 0.0)
        self._pace.updates_L[0] += 1
        if learner.updates % self._plan.publish_every == 0:
            self._weights.publish(learner.updates, self._parameters.arrays())
        self._say_how_it_goes()

    def look(self) -> None:
        """Says its part of a snapshot that is wanted."""
        number = self._control.snapshot
        if number in (0, self._said_number):
            return
        self._said_number = number
        groups = {
            "weights": self._learner.weights(),
            "optimiser": self._learner.rule_state(),
            "target": self._learner.target_weights(),
        }
        arrays = {f"{group}:{name}": array for group, part in groups.items() for name, array in part.items()}
        self._control.say("part", arrays, number=number)

    def _order(self) -> None:
        with self._clock("replay"):
            while self._client.order(derive_seed(self._plan.config.run.seed, REPLAY, self._ordered), 0.0):
                self._ordered += 1

    def _say_how_it_goes(self) -> None:
        if not self._figures.is_due():
            return
        experience = {
            "replay/transitions": float(self._client.rows),
            "replay/dropped_priorities": float(self._client.dropped),
            "replay/beta": self._replay.beta(min(1.0, self._pace.steps / self._plan.config.run.steps)),
        }
        self._control.say(
            "figures",
            **self._figures.taken(),
            updates=self._learner.updates,
            seconds=self._clock.seconds,
            experience=experience,
        )


class _Figures:
    """Figures of updates since they were last taken; nothing is waited for until then."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()
        self._clear()

    def _clear(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count, self._lag_sum, self._rate = 0, 0.0, 0.0
        self._lag_min, self._lag_max = np.inf, -np.inf

    def add(self, figures: dict[str, Tensor], lag_N: np.ndarray, rate: float) -> None:
        """Of one update: `lag_N` are the updates since the versions that acted."""
        for name, value in figures.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._count, self._rate = self._count + 1, rate
        self._lag_sum += float(lag_N.mean())
        self._lag_min, self._lag_max = min(self._lag_min, lag_N.min()), max(self._lag_max, lag_N.max())

    def is_due(self) -> bool:
        return self._count > 0 and time.monotonic() - self._said_at > _SAY_S

    def taken(self) -> dict[str, Any]:
        """Sums over `count` updates, and the last step size."""
        taken = {
            "count": self._count,
            "sums": {name: float(value) for name, value in self._sums.items()},
            "lag_sum": self._lag_sum,
            "lag_min": float(self._lag_min),
            "lag_max": float(self._lag_max),
            "learning_rate": self._rate,
        }
        self._said_at = time.monotonic()
        self._clear()
        return taken


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
