"""What learners of decoupled systems share: weights published, figures said, a part of every checkpoint."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.agent import make_network
from veldt.algorithms.base import Forward, Loss
from veldt.config import TrainConfig, to_dict
from veldt.exchange.gradients import AllReduce, GradientEdge, OneLearner
from veldt.exchange.pace import Pace
from veldt.exchange.weights import Weights
from veldt.networks.build import TorsoFactory
from veldt.networks.flat import FlatParameters
from veldt.networks.precision import CompiledForward, Network, apply_precision
from veldt.runtime.memory import keep_freed_memory
from veldt.runtime.roles import Control
from veldt.simulators.spec import SimulatorSpec
from veldt.systems.latest import newest_checkpoint
from veldt.systems.learner import Learner
from veldt.systems.stages import StageClock

_AGREE_EVERY = 16  # updates between agreements of several learners on how far the run is
_SAY_S = 0.5  # seconds between messages with figures


@dataclass(frozen=True)
class LearnerPlan:
    """`publish_every` counts updates. `run` is the run's directory, whose newest checkpoint it goes on from.

    Of several learners the one of rank 0 publishes and keeps; they meet at a file whose name begins with `meeting`.
    """

    config: TrainConfig
    spec: SimulatorSpec
    network: TorsoFactory | None
    publish_every: int
    run: Path | None = None
    rank: int = 0
    learners: int = 1
    meeting: Path | None = None


class LearnerRole(ABC):
    """Owns network and target network; the kinds say where batches come from."""

    def __init__(self, control: Control, plan: LearnerPlan, weights: Weights, pace: Pace) -> None:
        keep_freed_memory()
        self._control, self._plan, self._weights, self._pace = control, plan, weights, pace
        config = plan.config
        torch.set_num_threads(max(1, config.run.threads))
        self._device = _device(config.run.device, plan.rank)
        self._algorithm = config.make_algorithm(plan.spec.action)
        self._network, self._parameters = self._made()
        target, target_parameters = self._made() if self._algorithm.target else (None, None)
        self._forward = self._compiled(self._network)
        self._target = None if target is None else self._compiled(target)
        edge = self._gradient_edge()
        self._learner = Learner(self._algorithm, self._forward, self._parameters, edge, target_parameters)
        self._clock, self._figures, self._said_snapshot = StageClock(), _Figures(), 0
        checkpoint = None if plan.run is None else newest_checkpoint(plan.run)
        if checkpoint is not None:
            groups = checkpoint.groups
            self._learner.load(groups["weights"], groups["optimiser"], groups.get("target", {}))
        weights_bytes = b"".join(array.tobytes() for array in self._parameters.arrays().values())
        settings_bytes = json.dumps(to_dict(config), sort_keys=True).encode()
        edge.agree({"settings": _digest(settings_bytes), "weights": _digest(weights_bytes)})
        # Versions only grow: updates that were lost with a former life are counted, too, and what it goes on from is
        # none of the versions that are there.
        lived = 1 if control.attempt else 0
        self._learner.updates = int(edge.largest(float(pace.updates_L.max()))) + lived
        pace.updates_L[plan.rank] = self._learner.updates
        self._edge, self._shared_progress, self._first_update = edge, 0.0, self._learner.updates
        if plan.rank == 0:
            weights.publish(self._learner.updates, self._parameters.arrays())

    def run(self) -> None:
        """Learns until it is told to stop."""
        try:
            while not self._control.stopping:
                self._control.beat()
                self._say_part()
                self.step()
                self._say_how_it_goes(is_due=self._figures.is_due)
            self._say_how_it_goes(is_due=self._figures.has_any)
        except RuntimeError:
            # Of another learner that has ended already.
            if self._plan.learners == 1 or not self._control.stopping:
                raise

    @abstractmethod
    def step(self) -> None:
        """One update, or a short wait for what it needs."""

    @abstractmethod
    def experience(self) -> dict[str, float]:
        """Figures of its own to log."""

    @property
    def progress(self) -> float:
        return min(1.0, self._pace.steps / self._plan.config.run.steps)

    def _common_progress(self) -> float:
        """As far as the learners have agreed now and then: steps of different sizes would part them for good."""
        if self._plan.learners == 1:
            return self.progress
        if (self._learner.updates - self._first_update) % _AGREE_EVERY == 0:
            self._shared_progress = self._edge.largest(self.progress)
        return self._shared_progress

    def update(self, batch: Any, version_N: np.ndarray, rows: int) -> Loss:
        """Learns from what the algorithm makes a loss of; `version_N` are the policy versions that acted in it.

        An accelerator may still be at it; `publish` waits for it.
        """
        rate = self._algorithm.learning_rate(self._common_progress(), rows)
        with self._clock("train"):
            loss = self._learner.update(batch, self.progress, rate)
        self._figures.add(loss.figures, self._learner.updates - 1 - version_N, rate)
        self._pace.updates_L[self._plan.rank] += 1
        return loss

    def publish(self) -> None:
        """Says what the weights are after the last update, when that is due."""
        if self._plan.rank == 0 and self._learner.updates % self._plan.publish_every == 0:
            self._weights.publish(self._learner.updates, self._parameters.arrays())

    def _say_how_it_goes(self, *, is_due: bool) -> None:
        if self._plan.rank == 0 and is_due:
            self._control.say(
                "figures",
                **self._figures.taken(),
                updates=self._learner.updates,
                seconds=self._clock.seconds,
                experience=self.experience(),
            )

    def _say_part(self) -> None:
        """Its part of a snapshot that is wanted."""
        number = self._control.snapshot
        if number in (0, self._said_snapshot) or self._plan.rank:
            return
        self._said_snapshot = number
        groups = {
            "weights": self._learner.weights(),
            "optimiser": self._learner.rule_state(),
            "target": self._learner.target_weights(),
        }
        arrays = {f"{group}:{name}": array for group, part in groups.items() for name, array in part.items()}
        self._control.say("part", arrays, number=number, updates=self._learner.updates)

    def _gradient_edge(self) -> GradientEdge:
        plan = self._plan
        if plan.learners == 1:
            return OneLearner()
        assert plan.meeting is not None
        # They are all started again together, and meet anew.
        meeting = plan.meeting.with_name(f"{plan.meeting.name}-{self._control.attempt}")
        return AllReduce(plan.rank, plan.learners, meeting, self._device)

    def _made(self) -> tuple[Network, FlatParameters]:
        network = make_network(self._plan.config, self._plan.spec, self._plan.network)
        return network, apply_precision(network, self._plan.config.run.precision, self._device)

    def _compiled(self, network: Network) -> Forward:
        if not self._plan.config.run.compile:
            return network
        return CompiledForward(network, lambda text: self._control.say("note", about="note", text=text))


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "little", signed=True)


def _device(name: str, rank: int) -> torch.device:
    """Learners on accelerators take one each, in turn."""
    device = torch.device(name)
    if device.type != "cuda" or rank == 0:
        return device
    return torch.device("cuda", ((device.index or 0) + rank) % torch.cuda.device_count())


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

    @property
    def has_any(self) -> bool:
        return self._count > 0

    @property
    def is_due(self) -> bool:
        return self.has_any and time.monotonic() - self._said_at > _SAY_S

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
