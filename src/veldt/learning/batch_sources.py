"""Sources of batches: the rollout that was just sampled, or a replay buffer that stores rollouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.base import Forward, OffPolicy, OnPolicy
from veldt.algorithms.groups import Targets
from veldt.envs.seeding import REPLAY, SHUFFLE, derive_seed
from veldt.envs.trajectory import Trajectory
from veldt.exchange.gradients import GradientEdge
from veldt.learning.batch_memory import BatchMemory
from veldt.learning.checked_loss import required_priority
from veldt.learning.normalisation import RewardNormaliser
from veldt.learning.replay_batches import Noise, to_transitions, with_global_weights
from veldt.replay.batch import batch_layouts
from veldt.replay.settings import ReplayConfig
from veldt.sampling.sampler import Sampler
from veldt.tracking.stage_clock import StageClock


class BatchSource(Protocol):
    """Makes the batches of one optimisation phase, after the sampler has filled its trajectory buffer."""

    def batches(self, steps: int, progress: float) -> Iterator[tuple[Any, float]]:
        """Yields batches for the algorithm's loss, each with the mean policy version that chose its actions.

        A batch is valid until the next is requested.

        Args:
            steps: agent steps done, including this rollout.
            progress: fraction of the training budget that was done before this rollout.
        """

    def update_priorities(self, priority: Tensor | None) -> None:
        """Stores the new priorities of the last batch's rows; the update computed them."""

    def metrics(self) -> dict[str, float]:
        """Returns metrics to log."""

    def counters(self) -> dict[str, Any]:
        """Returns what a checkpoint stores besides the replay buffer."""

    def load(self, counters: Mapping[str, Any]) -> None:
        """Restores what `counters` returned."""


class OnPolicySource:
    """See `BatchSource`: uses every rollout once, in its own phase.

    Args:
        edge: connects the learners that share each batch.
    """

    def __init__(
        self,
        algorithm: OnPolicy,
        forward: Forward,
        sampler: Sampler,
        run_seed: int,
        clock: StageClock,
        edge: GradientEdge,
    ) -> None:
        self._algorithm, self._forward, self._sampler = algorithm, forward, sampler
        self._run_seed, self._clock = run_seed, clock
        gamma, width = algorithm.reward_statistics_gamma, sampler.trajectory.width
        self._rewards = None if gamma is None else RewardNormaliser(gamma, width, edge)

    def batches(self, steps: int, progress: float) -> Iterator[tuple[Any, float]]:
        seed = derive_seed(self._run_seed, SHUFFLE, self._sampler.phase)
        generator = torch.Generator().manual_seed(seed)
        rollout = self._sampler.rollout()
        if self._rewards is not None:
            reward_TB = self._rewards.normalise(rollout.reward, self._sampler.trajectory)
            rollout = dataclasses.replace(rollout, reward=reward_TB)
        acted = float(self._sampler.trajectory.version.mean())
        minibatches = self._algorithm.minibatches(self._forward, rollout, generator)
        while True:
            with self._clock("train"):
                batch = next(minibatches, None)
            if batch is None:
                return
            yield batch, acted

    def update_priorities(self, priority: Tensor | None) -> None:
        pass

    def metrics(self) -> dict[str, float]:
        return {}

    def counters(self) -> dict[str, Any]:
        return {} if self._rewards is None else {"rewards": self._rewards.state()}

    def load(self, counters: Mapping[str, Any]) -> None:
        if self._rewards is not None:
            self._rewards.load(counters["rewards"])


class ReplaySource:
    """See `BatchSource`: stores rollouts in a replay buffer and samples batches at the training intensity.

    The number of updates is a function of steps, not of phases: each sampled transition is used `intensity` times on
    average, counted from the start of learning.

    Args:
        target: the target networks' forward passes.
        noise: numbers of standard normal values that an update and each of its rows need.
        note: called with a message for the user.
        rows: rows of the algorithm's batch that this process samples.
        starts: steps before the first update.
        threads: number of threads that assemble batches.
        edge: connects the learners that share each batch.
    """

    def __init__(
        self,
        algorithm: OffPolicy,
        forward: Forward,
        target: Targets,
        slot: Trajectory,
        config: ReplayConfig,
        device: torch.device,
        run_seed: int,
        clock: StageClock,
        noise: Noise,
        note: Callable[[str], None],
        rows: int,
        starts: int,
        threads: int = 1,
        *,
        edge: GradientEdge,
    ) -> None:
        from veldt.replay.buffer import ReplayBuffer  # here, because it loads numba

        self._algorithm, self._forward, self._target = algorithm, forward, target
        self._edge = edge
        self._slot, self._config, self._device = slot, config, device
        self._run_seed, self._clock, self._noise, self._note = run_seed, clock, noise, note
        self.buffer = ReplayBuffer(slot.spec, slot.width, config, algorithm.returns, threads)
        self.updates = 0
        self._updates_before = 0  # updates done when learning last started
        self._memory = BatchMemory(batch_layouts(slot.spec, rows), device)
        self._rows, self._batch = rows, self._memory.next()
        self._starts, self._starts_at = starts, starts
        self._steps = 0
        self._num_outside = 0
        self._beta = config.importance_exponent

    def batches(self, steps: int, progress: float) -> Iterator[tuple[Any, float]]:
        with self._clock("replay"):
            self.store()
        self._steps = steps
        self._count_outside()
        if steps <= self._starts_at or self._edge.all_reduce_max(float(len(self.buffer) < self._rows)):
            # Also in mid-run, if the replay buffer has become too small. Skipped updates are not caught up.
            self._updates_before, self._starts_at = self.updates, max(self._starts_at, steps)
            return
        self._beta = self._config.beta(progress)
        while self.updates < self._due(steps):
            with self._clock("replay"):
                seed = derive_seed(self._run_seed, REPLAY, self.updates)
                self._batch = self._memory.next()
                self.buffer.sample(self._batch, seed)
                seeds = [derive_seed(self._run_seed, REPLAY, self.updates, purpose) for purpose in (1, 2)]
                transitions = to_transitions(
                    self._batch, self._slot.spec, self._beta, self._noise, seeds, self._device
                )
                self._memory.copies_are_queued()
                if self._config.replay == "prioritised":
                    # Every rank samples the same number of rows, whatever its sum of sampling weights.
                    least_mass = float(self._batch.mass_N.min()) / self.buffer.index.mass
                    transitions = with_global_weights(transitions, least_mass, self._beta, self._edge)
            with self._clock("train"):
                batch = self._algorithm.targets(self._forward, self._target, transitions)
            self.updates += 1
            yield batch, float(self._batch.version_N.mean())

    def store(self) -> None:
        """Appends the rollout to the replay buffer."""
        self.buffer.append(self._slot)

    def update_priorities(self, priority: Tensor | None) -> None:
        if self._config.replay == "prioritised":
            given_N = required_priority(priority, len(self._batch.key_N), self._algorithm)
            with self._clock("replay"):
                self.buffer.update(self._batch.key_N, given_N.cpu().numpy())

    def refill(self, steps: int) -> int:
        """Restarts with an empty replay buffer in mid-run. Learning pauses for the steps returned, as at the start."""
        self._updates_before, self._starts_at = self.updates, steps + self._starts
        return self._starts

    def metrics(self) -> dict[str, float]:
        learned = (self.updates - self._updates_before) * self._algorithm.batch_size
        metrics = {
            "replay/transitions": float(len(self.buffer)),
            "replay/training_intensity": learned / max(1, self._steps - self._starts_at),
        }
        if self._config.replay == "prioritised":
            metrics |= {"replay/beta": self._beta, "replay/dropped_priorities": float(self.buffer.dropped)}
        if self._algorithm.reward_range is not None:
            metrics["replay/rewards_outside_atoms"] = float(self._num_outside)
        return metrics

    def counters(self) -> dict[str, Any]:
        return {
            "updates": self.updates,
            "updates_before": self._updates_before,
            "starts_at": self._starts_at,
            "outside": self._num_outside,
        }

    def load(self, counters: Mapping[str, Any]) -> None:
        self.updates, self._updates_before = int(counters["updates"]), int(counters["updates_before"])
        self._starts_at, self._num_outside = int(counters["starts_at"]), int(counters["outside"])

    def _due(self, steps: int) -> int:
        used = (steps - self._starts_at) * self._algorithm.intensity
        return self._updates_before + int(used // self._algorithm.batch_size)

    def _count_outside(self) -> None:
        if self._algorithm.reward_range is None:
            return
        low, high = self._algorithm.reward_range
        reward = self._slot.reward[self._slot.valid]
        if self._algorithm.returns.clip_rewards:
            reward = reward.clip(-1.0, 1.0)
        outside = int(np.count_nonzero((reward < low) | (reward > high)))
        if outside and not self._num_outside:
            self._note(
                f"{outside} of the last {len(reward)} rewards lie outside the atoms' range, {low:g} to {high:g}, and "
                "values beyond cannot be learned: widen --value-min and --value-max, or use --clip-rewards (metrics "
                "count them on as replay/rewards_outside_atoms)"
            )
        self._num_outside += outside
