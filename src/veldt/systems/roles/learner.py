"""What learners of systems with actors share: publishing weights, sending metrics, their part of a checkpoint."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from veldt.agent import make_network
from veldt.algorithms.base import Forward, Loss
from veldt.algorithms.rollout import Rollout
from veldt.config.train_config import TrainConfig
from veldt.envs.spec import EnvSpec
from veldt.errors import PeerLostError
from veldt.exchange.gradients import AllReduce, GradientEdge, NoAllReduce
from veldt.exchange.graph import Groups
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.weights import Weights
from veldt.learning.diagnostics import Diagnostics
from veldt.learning.learner import Learner
from veldt.learning.normalisation import RewardNormaliser, reward_gamma_of
from veldt.learning.running_statistics import SynchronisedStatistics
from veldt.learning.targets import TargetNetworks
from veldt.networks.flat import FlatParameters
from veldt.networks.own import OwnParts
from veldt.networks.precision import CompiledForward, Network, apply_precision
from veldt.runs.checkpoint_files import restoring
from veldt.runs.checkpoints import newest_checkpoint
from veldt.runtime.devices import nth_device
from veldt.runtime.role_messages import Note
from veldt.runtime.roles import Control
from veldt.runtime.system_memory import disable_malloc_trim
from veldt.sampling.unrolls import Unrolls
from veldt.systems.roles.digests import config_digests, weights_digest
from veldt.systems.roles.messages import SnapshotPart, UpdateMetrics
from veldt.tracking.stage_clock import StageClock

_REWARDS = "rewards"  # the name in a learner's state in checkpoints
_ALL_REDUCE_EVERY = 16  # updates between all-reduces of the run's progress by several learners


@dataclass(frozen=True)
class LearnerPlan:
    """`publish_every` counts updates. `run` is the run's directory, whose newest checkpoint the learner resumes from.

    Of several learners, rank 0 publishes weights and writes the checkpoint; they meet at a file whose name begins
    with `rendezvous_file`.
    """

    config: TrainConfig
    spec: EnvSpec
    network: OwnParts
    publish_every: int
    run: Path | None = None
    rank: int = 0
    world_size: int = 1
    rendezvous_file: Path | None = None


class LearnerRole(ABC):
    """Owns network and target network; subclasses say where batches come from.

    `weights` is None where no role acts with a copy of them.
    """

    def __init__(
        self, control: Control, plan: LearnerPlan, weights: Weights | None, rate_limiter: RateLimiter
    ) -> None:
        disable_malloc_trim()
        self._control, self._plan, self._weights, self._rate_limiter = control, plan, weights, rate_limiter
        config = plan.config
        torch.set_num_threads(max(1, config.run.threads))
        self._device = nth_device(config.run.device, plan.rank)
        self._algorithm = config.make_algorithm(plan.spec.action)
        self._network, self._parameters = self._make_networks()
        self._forward = self._compiled(self._network)
        self._targets = TargetNetworks(
            self._algorithm.target_networks, self._parameters, self._make_networks, self._compiled
        )
        edge = self._gradient_edge()
        self._learner = self._make_learner(edge)
        self._statistics = SynchronisedStatistics(edge)
        has_returns = reward_gamma_of(self._algorithm) is not None
        self._rewards = RewardNormaliser(self._statistics) if has_returns else None
        self._clock, self._metrics, self._sent_snapshot = StageClock(), UpdateMetrics(), 0
        checkpoint = None if plan.run is None else newest_checkpoint(plan.run)
        self._saved_state: Mapping[str, Any] = {}  # its own state in that checkpoint
        if checkpoint is not None:
            with restoring(checkpoint):
                groups = checkpoint.groups
                self._learner.load(groups["weights"], groups["optimiser"], groups.get("target", {}))
                self._saved_state = checkpoint.meta.get("learners", {}).get("0") or {}
                if self._rewards is not None:
                    self._rewards.load(self._saved_state[_REWARDS])
        edge.assert_same_on_all_ranks({**config_digests(config), "weights": weights_digest(self._parameters)})
        self._learner.updates = self._updates_before(edge)
        rate_limiter.updates_L[plan.rank] = self._learner.updates
        self._edge, self._shared_progress, self._first_update = edge, 0.0, self._learner.updates
        self._publish()

    def run(self) -> None:
        """Learns until it is asked to stop."""
        try:
            while not self._control.stopping:
                if self.is_progressing():
                    self._control.heartbeat()
                self._send_snapshot_part()
                self.step()
                self._send_metrics(is_due=self._metrics.is_due)
            self._send_metrics(is_due=self._metrics.has_any)
        except PeerLostError:
            if not self._control.stopping:  # else another learner has already stopped
                raise

    @abstractmethod
    def step(self) -> None:
        """Makes one update, or waits a moment for what it needs."""

    def is_progressing(self) -> bool:
        """Whether all threads of this role have made progress since the last call."""
        return True

    @abstractmethod
    def source_metrics(self) -> dict[str, float]:
        """Metrics of the source of batches."""

    @property
    def is_reporter(self) -> bool:
        """Whether it sends metrics: those of rank 0 hold for all learners."""
        return self._plan.rank == 0

    def _make_learner(self, edge: GradientEdge) -> Learner:
        return Learner(
            self._algorithm,
            self._forward,
            self._parameters,
            edge,
            self._targets,
            diagnostics=self._make_diagnostics(),
        )

    def _make_diagnostics(self) -> Diagnostics:
        run = self._plan.config.run
        return Diagnostics(self._parameters, run.log_norms, run.log_saturation)

    def _updates_before(self, edge: GradientEdge) -> int:
        """Counts updates lost with a former incarnation too, so that versions only grow; after a restart, one more:
        the restored weights equal no published version."""
        restarted = 1 if self._control.restart_count else 0
        return int(edge.all_reduce_max(float(self._rate_limiter.updates_L.max()))) + restarted

    @property
    def progress(self) -> float:
        return min(1.0, self._rate_limiter.steps / self._plan.config.run.steps)

    def _common_progress(self) -> float:
        """Progress that learners share by an all-reduce now and then, called once for each update.

        Each reads the run's steps at another moment: by its own progress their learning rates, also those of single
        parameter groups, would differ, and then their parameters.
        """
        if self._plan.world_size == 1:
            return self.progress
        if (self._learner.updates - self._first_update) % _ALL_REDUCE_EVERY == 0:
            self._shared_progress = self._edge.all_reduce_max(self.progress)
        return self._shared_progress

    def update(self, batch: Any, version_N: np.ndarray, rows: int) -> Loss:
        """Makes one update on what the algorithm computes a loss of; `version_N` are the policy versions that acted.

        An accelerator may still be computing it; `publish` waits for it.
        """
        progress = self._common_progress()
        rate = self._algorithm.learning_rate(progress, rows)
        lag_N = self._learner.version - version_N
        with self._clock("train"):
            loss = self._learner.update(batch, progress, rate)
        lag = float(lag_N.mean()), float(lag_N.min()), float(lag_N.max())
        self._metrics.add(loss.metrics, lag, rate)
        self._rate_limiter.updates_L[self._plan.rank] += 1
        return loss

    def with_normalised_rewards(
        self, rollout: Rollout, unrolls: Unrolls, new: slice = slice(None)
    ) -> Rollout:
        """Returns the rollout of these unrolls with normalised rewards, or as it is if the algorithm takes raw ones.

        Args:
            new: the columns that it has not learned from before.
        """
        if self._rewards is None:
            return rollout
        returns, valid = unrolls.running_return[:, new], unrolls.rows.valid[:, new]
        return dataclasses.replace(rollout, reward=self._rewards.normalise(rollout.reward, returns[valid]))

    def publish(self) -> None:
        """Publishes the weights if one of the last updates was due for it."""
        every = self._plan.publish_every
        if self._learner.updates // every > self._published // every:
            self._publish()

    def _publish(self) -> None:
        self._published = self._learner.updates
        if self._weights is not None and self._plan.rank == 0:
            self._weights.publish(self._learner.updates, self._parameters.arrays())

    def _send_metrics(self, *, is_due: bool) -> None:
        if self.is_reporter and is_due:
            metrics = self._metrics.take(self._learner.version, self._clock.seconds, self.source_metrics())
            self._control.send(metrics)

    def _send_snapshot_part(self) -> None:
        """Sends its part of a requested snapshot."""
        number = self._control.requested_snapshot
        if number in (0, self._sent_snapshot) or not self.is_reporter:
            return
        self._sent_snapshot = number
        rank, updates, state = self._plan.rank, self._learner.updates, self._extra_state()
        if self._rewards is not None:
            state = {**(state or {}), _REWARDS: self._rewards.state()}
        self._control.send(SnapshotPart(number, self._state(), rank=rank, updates=updates, state=state))

    def _state(self) -> Groups:
        """Its state in a checkpoint, by group."""
        return {
            "weights": self._learner.weights(),
            "optimiser": self._learner.optimiser_state(),
            "target": self._learner.target_weights(),
        }

    def _extra_state(self) -> dict[str, Any] | None:
        """Further state of its own for a checkpoint, as JSON values; None if there is none."""
        return None

    def _gradient_edge(self) -> GradientEdge:
        plan = self._plan
        if plan.world_size == 1:
            return NoAllReduce()
        assert plan.rendezvous_file is not None
        # All learners restart together, and meet at a new file.
        rendezvous = plan.rendezvous_file.with_name(
            f"{plan.rendezvous_file.name}-{self._control.restart_count}"
        )
        return AllReduce(plan.rank, plan.world_size, rendezvous, self._device, self._control.heartbeat)

    def _make_networks(self) -> tuple[Network, FlatParameters]:
        network = make_network(self._plan.config, self._plan.spec, self._plan.network)
        return network, apply_precision(network, self._plan.config.run.precision, self._device)

    def _compiled(self, network: Network) -> Forward:
        run = self._plan.config.run
        if not run.compiles:
            return network
        return CompiledForward(network, self._note, cuda_graphs=run.cuda_graphs)

    def _note(self, text: str) -> None:
        self._control.send(Note(text))
