"""Sources of batches: the rollout that was just sampled, or a replay buffer that stores rollouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from veldt.algorithms.base import Forward, OffPolicy, OnPolicy
from veldt.algorithms.transitions import Transitions
from veldt.envs.seeding import REPLAY, SHUFFLE, derive_seed
from veldt.envs.trajectory import Trajectory
from veldt.exchange.gradients import GradientEdge
from veldt.learning.batch_memory import BatchMemory
from veldt.learning.checked_loss import required_priority
from veldt.learning.checked_results import checked_minibatches
from veldt.learning.normalisation import RewardNormaliser, RunningReturns
from veldt.learning.outside_rewards import OutsideRewards
from veldt.learning.replay_batches import BatchConverter, with_global_weights
from veldt.learning.running_statistics import RunningStatistics
from veldt.replay.batch import batch_layouts
from veldt.sampling.sampler import Sampler
from veldt.tracking.stage_clock import StageClock

if TYPE_CHECKING:
    from veldt.replay.buffer import ReplayBuffer  # loads numba, which an on-policy run does not need


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
        statistics: of all learners.
    """

    def __init__(
        self,
        algorithm: OnPolicy,
        forward: Forward,
        sampler: Sampler,
        run_seed: int,
        clock: StageClock,
        statistics: RunningStatistics,
    ) -> None:
        self._algorithm, self._forward, self._sampler = algorithm, forward, sampler
        self._run_seed, self._clock = run_seed, clock
        self._rewards: tuple[RunningReturns, RewardNormaliser] | None = None
        if (gamma := algorithm.reward_statistics_gamma) is not None:
            self._rewards = RunningReturns(gamma, sampler.trajectory.width), RewardNormaliser(statistics)

    def batches(self, steps: int, progress: float) -> Iterator[tuple[Any, float]]:
        seed = derive_seed(self._run_seed, SHUFFLE, self._sampler.phase)
        generator = torch.Generator().manual_seed(seed)
        rollout = self._sampler.rollout()
        if self._rewards is not None:
            returns, normaliser = self._rewards
            rows = self._sampler.trajectory
            reward_TB = normaliser.normalise(rollout.reward, returns.of(rows)[rows.valid])
            rollout = dataclasses.replace(rollout, reward=reward_TB)
        acted = float(self._sampler.trajectory.version.mean())
        minibatches = checked_minibatches(
            self._algorithm.minibatches(self._forward, rollout, generator), self._algorithm
        )
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
        if self._rewards is None:
            return {}
        returns, normaliser = self._rewards
        return {"rewards": normaliser.state() | {"returns": returns.state()}}

    def load(self, counters: Mapping[str, Any]) -> None:
        if self._rewards is not None:
            returns, normaliser = self._rewards
            returns.load(counters["rewards"]["returns"])
            normaliser.load(counters["rewards"])


@dataclass(frozen=True)
class BatchShare:
    """What one learner samples of each batch.

    Args:
        rows: rows of the algorithm's batch that it samples.
        learning_starts: steps before its first update.
        seed: of its draws.
        edge: connects the learners that share each batch.
    """

    rows: int
    learning_starts: int
    seed: int
    edge: GradientEdge


class ReplaySource:
    """See `BatchSource`: stores rollouts in a replay buffer and samples batches at the training intensity.

    The number of updates is a function of steps, not of phases: each sampled transition is used `intensity` times on
    average, counted from the start of learning.

    Args:
        make_batch: the algorithm's `targets`, with the networks that it needs.
        slot: the rollouts that are stored.
        buffer: where they are stored.
        note: called with a message for the user.
        fills: whether it stores the rollouts itself; otherwise another source of the same buffer has done so.
    """

    def __init__(
        self,
        algorithm: OffPolicy,
        make_batch: Callable[[Transitions], Any],
        slot: Trajectory,
        buffer: ReplayBuffer,
        converter: BatchConverter,
        share: BatchShare,
        clock: StageClock,
        note: Callable[[str], None],
        *,
        fills: bool = True,
    ) -> None:
        self._algorithm, self._make_batch, self._slot, self._fills = algorithm, make_batch, slot, fills
        self.buffer, self._config, self._converter = buffer, buffer.config, converter
        self._share, self._clock = share, clock
        self.updates = 0
        self._updates_before = 0  # updates done when learning last started
        self._memory = BatchMemory(batch_layouts(converter.spec, share.rows), converter.device)
        self._batch = self._memory.next()
        self._starts_at = share.learning_starts
        self._steps = 0
        self._outside_rewards = OutsideRewards(algorithm, note)
        self._beta = self._config.importance_exponent

    def batches(self, steps: int, progress: float) -> Iterator[tuple[Any, float]]:
        if self._fills:
            with self._clock("replay"):
                self.buffer.append(self._slot)
        self._steps, share = steps, self._share
        self._outside_rewards.count(self._slot)
        if steps <= self._starts_at or share.edge.all_reduce_max(float(len(self.buffer) < share.rows)):
            # Also in mid-run, if the replay buffer has become too small. Skipped updates are not caught up.
            self._updates_before, self._starts_at = self.updates, max(self._starts_at, steps)
            return
        self._beta = self._config.beta(progress)
        while self.updates < self._due(steps):
            with self._clock("replay"):
                seed = derive_seed(share.seed, REPLAY, self.updates)
                self._batch = self._memory.next()
                self.buffer.sample(self._batch, seed)
                seeds = [derive_seed(share.seed, REPLAY, self.updates, purpose) for purpose in (1, 2)]
                transitions = self._converter.to_transitions(self._batch, self._beta, seeds)
                self._memory.copies_are_queued()
                if self._config.is_weighted:
                    # Every rank samples the same number of rows, whatever its sum of sampling weights.
                    least_mass = float(self._batch.mass_N.min()) / self.buffer.index.mass
                    transitions = with_global_weights(transitions, least_mass, self._beta, share.edge)
            with self._clock("train"):
                batch = self._make_batch(transitions)
            self.updates += 1
            yield batch, float(self._batch.version_N.mean())

    def update_priorities(self, priority: Tensor | None) -> None:
        if self._config.uses_priorities:
            given_N = required_priority(
                priority, len(self._batch.key_N), self._algorithm, self._config.replay
            )
            with self._clock("replay"):
                self.buffer.update(self._batch.key_N, given_N.cpu().numpy())

    def refill(self, steps: int) -> int:
        """Restarts with an empty replay buffer in mid-run. Learning pauses for the steps returned, as at the start."""
        self._updates_before, self._starts_at = self.updates, steps + self._share.learning_starts
        return self._share.learning_starts

    def metrics(self) -> dict[str, float]:
        learned = (self.updates - self._updates_before) * self._algorithm.batch_size
        metrics = {
            "replay/transitions": float(len(self.buffer)),
            "replay/training_intensity": learned / max(1, self._steps - self._starts_at),
        }
        if self._config.is_weighted:
            metrics["replay/beta"] = self._beta
        if self._config.uses_priorities:
            metrics["replay/dropped_priorities"] = float(self.buffer.dropped)
        return metrics | self._outside_rewards.metrics()

    def counters(self) -> dict[str, Any]:
        return {
            "updates": self.updates,
            "updates_before": self._updates_before,
            "starts_at": self._starts_at,
            "outside": self._outside_rewards.total,
        }

    def load(self, counters: Mapping[str, Any]) -> None:
        self.updates, self._updates_before = int(counters["updates"]), int(counters["updates_before"])
        self._starts_at, self._outside_rewards.total = int(counters["starts_at"]), int(counters["outside"])

    def _due(self, steps: int) -> int:
        used = (steps - self._starts_at) * self._algorithm.intensity
        return self._updates_before + int(used // self._algorithm.batch_size)
