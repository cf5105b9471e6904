"""The sampler-learner: the synchronous system has one, other systems several (Stooke & Abbeel, section 4.2).

    envs ==rows==> sampler ==slot==> batch source ==batches==> learner ==gradient==> the others, if there are any
      ^               |              (fresh rollouts              |
      |               |              or a replay buffer)          |
      +--- actions ---+ <--------------- parameters --------------+

The sampler acts with the parameters of the last update. How old the data of an update are depends on the batch source:
one phase for rollouts, any age for a replay buffer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import torch

from veldt.algorithms.base import Algorithm, Loss, OffPolicy, OnPolicy
from veldt.envs.in_process import VectorEnvs
from veldt.envs.seeding import ACTOR, derive_seed
from veldt.envs.stepper_settings import StepperSettings
from veldt.exchange.gradients import GradientEdge, NoAllReduce
from veldt.learning.batch_sources import BatchShare, BatchSource, OnPolicySource, ReplaySource
from veldt.learning.checked_results import checked_exploration
from veldt.learning.diagnostics import Diagnostics
from veldt.learning.learner import Learner
from veldt.learning.normalisation import load_observation_statistics, update_observation_statistics
from veldt.learning.optimiser import LocalOptimiser, Optimiser
from veldt.learning.running_statistics import RunningStatistics, SynchronisedStatistics
from veldt.learning.snapshot import Snapshot
from veldt.networks.flat import FlatParameters
from veldt.runs.checkpoint_files import Checkpoint, restoring
from veldt.runtime.devices import training_threads
from veldt.runtime.system_memory import disable_malloc_trim
from veldt.sampling.episodes import Episode, EpisodeTracker
from veldt.sampling.sampler import ActingPolicy, Sampler
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.scale_notes import ScaleWarning
from veldt.systems.roles.thread_choice import ThreadChoice
from veldt.systems.roles.trained_network import TrainedNetwork
from veldt.tracking.stage_clock import StageClock

# Called after each update with its loss, the mean policy lag in updates, and the learning rate.
OnUpdate = Callable[[Loss, float, float], None]


@dataclass(frozen=True)
class WorkerRank:
    """Rank and number of the sampler-learners.

    Args:
        seed: of all its random numbers.
        is_synchronised: whether all learn from their parts of the same batches and have the same parameters. Otherwise
            each has batches of its own.
    """

    seed: int
    rank: int = 0
    world_size: int = 1
    is_synchronised: bool = True

    @property
    def draw_seed(self) -> int:
        """Seed of what its batch source draws, different for each rank."""
        return derive_seed(self.seed, ACTOR, self.rank) if self.rank else self.seed


@dataclass(frozen=True)
class GroupContext:
    """How a sampler-learner is connected to the others: by default, not at all.

    Args:
        edge: all-reduces gradients before they are applied.
        statistics: of the data of all learners; None: they are synchronised by `edge`.
        optimiser: makes the optimiser.
        version_of: total updates of the shared parameters, from the number of this sampler-learner's own.
        heartbeat: called before each step of a group of envs.
        schedule: maps the agent steps of all sampler-learners to those that exploration is annealed by.
    """

    edge: GradientEdge = field(default_factory=NoAllReduce)
    statistics: RunningStatistics | None = None
    optimiser: Callable[[Algorithm, FlatParameters], Optimiser] = LocalOptimiser
    version_of: Callable[[int], int] = lambda own: own
    heartbeat: Callable[[], None] = lambda: None
    schedule: Callable[[int], int] = lambda steps: steps


@dataclass(frozen=True)
class PhaseCounts:
    """Agent steps and reset steps of one phase, the episodes that ended, and the learning rate of its updates."""

    steps: int
    reset_steps: int
    episodes: list[Episode]
    learning_rate: float


class ShowNote(Protocol):
    """Shows the user a sentence and records it as an event of the kind `about`."""

    def __call__(self, text: str, about: str = "note") -> None: ...


def _thread_choice(run_plan: RunPlan, note: ShowNote) -> ThreadChoice | None:
    if run_plan.training_threads is None:
        return None
    measure = run_plan.time_threads if run_plan.may_change_threads else None
    return ThreadChoice(run_plan.training_threads, measure, partial(note, about="threads"))


class SamplerLearner:
    """Envs, sampler, batch source and learner, connected.

    Args:
        run_plan: the run's; its plan of envs is for one sampler-learner.
        worker_rank: its rank.
        clock: adds up the time spent per stage.
        archive: directory of the replay buffer in checkpoints, if they include it.
        context: its connections to the others.
    """

    def __init__(
        self,
        run_plan: RunPlan,
        worker_rank: WorkerRank,
        clock: StageClock,
        archive: Path | None,
        note: ShowNote,
        context: GroupContext = GroupContext(),
    ) -> None:
        disable_malloc_trim()
        config = run_plan.config
        self._config, self._run_plan, self._worker_rank, self._clock = config, run_plan, worker_rank, clock
        self._note, self._edge, self._schedule = note, context.edge, context.schedule
        self._statistics = context.statistics or SynchronisedStatistics(context.edge)
        self.thread_choice = _thread_choice(run_plan, note)
        total = config.envs.num_envs
        self._width = total // worker_rank.world_size
        # The number of ranks that share each batch.
        self._sharing = worker_rank.world_size if worker_rank.is_synchronised else 1
        self.first = worker_rank.rank * self._width
        self._trained = trained = TrainedNetwork.of(run_plan, note)
        self.algorithm, self.network, self.parameters = (
            trained.algorithm,
            trained.network,
            trained.parameters,
        )
        if worker_rank.world_size > 1:
            self.algorithm.set_env_slice(self.first, total)
        self._scale_warning = ScaleWarning(config, self.algorithm, worker_rank.rank == 0, note)
        self.learner = self._make_learner(context)
        self.envs = self._make_envs()
        try:
            self.slot = self.envs.trajectory
            self.episodes = EpisodeTracker(self._width, {})
            self._sampler = self._make_sampler(context.heartbeat)
            self.batch_source = self._make_batch_source()
            self.archive = None
            if isinstance(self.batch_source, ReplaySource) and archive is not None:
                from veldt.replay.archive import ReplayArchive  # here, because it loads numba

                self.archive = ReplayArchive(archive, self.batch_source.buffer)
            self.snapshot = Snapshot(
                self.learner, self._sampler, self.envs, self.episodes, self.batch_source, self.archive
            )
        except BaseException:
            self.envs.close()
            raise

    def _make_learner(self, context: GroupContext) -> Learner:
        run = self._config.run
        return Learner(
            self.algorithm,
            self._trained.forward,
            self.parameters,
            context.edge,
            self._trained.targets,
            context.optimiser(self.algorithm, self.parameters),
            context.version_of,
            Diagnostics(self.parameters, run.log_norms, run.log_saturation),
        )

    def _make_envs(self) -> VectorEnvs:
        config = self._config
        settings = StepperSettings(
            self._run_plan.source,
            self._worker_rank.seed,
            dataclasses.replace(config.envs, num_envs=self._width),
            config.atari,
            self.first,
        )
        steps = self.algorithm.horizon(self._width * self._sharing)
        return self._run_plan.envs(settings, steps, lambda b, t: self.episodes.actions_until(self.slot, b, t))

    def _make_sampler(self, heartbeat: Callable[[], None]) -> Sampler:
        return Sampler(
            self.envs,
            ActingPolicy.of(self.algorithm, self.network, self._trained.forward),
            self._run_plan.inference_place,
            self._worker_rank.seed,
            self._clock,
            self.first,
            heartbeat,
        )

    def _make_batch_source(self) -> BatchSource:
        algorithm, seed = self.algorithm, self._worker_rank.draw_seed
        if isinstance(algorithm, OnPolicy):
            forward = self._trained.forward
            return OnPolicySource(algorithm, forward, self._sampler, seed, self._clock, self._statistics)
        assert isinstance(algorithm, OffPolicy)
        from veldt.replay.buffer import ReplayBuffer  # here, because it loads numba

        slot, learners = self.slot, self._worker_rank.world_size
        starts = algorithm.learning_starts // (learners // self._sharing)
        return self._trained.replay_source(
            slot,
            ReplayBuffer(
                slot.spec,
                slot.width,
                self._config.replay_of(learners),
                algorithm.returns,
                self._run_plan.replay_threads,
            ),
            BatchShare(algorithm.batch_size // self._sharing, starts, seed, self._edge),
            self._clock,
        )

    def begin(self, checkpoint: Checkpoint | None, done: int = 0) -> list[str]:
        """Starts its envs, or restores a checkpoint. Returns sentences about what could not be restored.

        Args:
            done: without a checkpoint, its agent steps before a restart.
        """
        if checkpoint is not None:
            with restoring(checkpoint):
                unrestored = self.snapshot.restore(checkpoint)
            if self._run_plan.may_change_threads and self.thread_choice is not None:
                before = int(checkpoint.meta.get("threads", self.thread_choice.threads))
                self.thread_choice.threads = min(before, training_threads(0))  # this machine may be smaller
                self._act_beside(self.thread_choice.threads)
            self.acts_by_newest()
            return unrestored
        self.episodes.set_prefixes(self.envs.start())
        if done and isinstance(self.batch_source, ReplaySource):
            self.batch_source.refill(done)
        return []

    def run_phase(
        self,
        steps: int,
        done: int,
        updated: OnUpdate,
        finish_writing: Callable[[], None] = lambda: None,
    ) -> PhaseCounts:
        """Collects one rollout and makes the updates on it.

        Args:
            steps: agent steps of all sampler-learners before it.
            done: agent steps before it of the ranks that share batches with this one, or of this one alone.
            finish_writing: called before rows are overwritten that are still being written to disk.
        """
        slot, progress = self.slot, min(1.0, steps / self._config.run.steps)
        self._sampler.sample(self._schedule(steps))
        if self._sampler.phase == 1:
            self._scale_warning.look_at(slot)
        waits = self._config.envs.resets == "wait"
        if waits:
            self.envs.reset_ended()  # workers reset envs while this process learns
        new_steps = int(slot.valid.sum())
        rate = self.algorithm.learning_rate(progress, slot.steps * slot.width * self._sharing)
        if self.archive is not None and self.archive.would_overwrite(slot.steps):
            finish_writing()
        new_steps_of_all = new_steps
        if isinstance(self.batch_source, ReplaySource) and self._sharing > 1:
            # Summed, so that all ranks make as many updates.
            new_steps_of_all = int(self._edge.all_reduce_sum([new_steps])[0])
        self._learn(done + new_steps_of_all, progress, rate, updated)
        update_observation_statistics(self.network, slot, self._statistics)
        self.acts_by_newest()
        episodes = self.episodes.add(slot)
        self._sampler.start_next_rollout()
        if waits:
            self.envs.finish_resets()
        return PhaseCounts(new_steps, slot.valid.size - new_steps, episodes, rate)

    def _learn(self, done: int, progress: float, rate: float, updated: OnUpdate) -> None:
        """Makes the updates that are due after `done` steps; then chooses the number of threads again, if it must."""
        choice = self.thread_choice
        if choice is not None:
            torch.set_num_threads(choice.threads)
        seconds_before, updates_before = self._clock.seconds["train"], self.learner.updates
        for batch, acted in self.batch_source.batches(done, progress):
            with self._clock("train"):
                loss = self.learner.update(batch, progress, rate)
            lag = self.learner.updated_version - acted
            self.batch_source.update_priorities(loss.priority)
            updated(loss, lag, rate)
        seconds = self._clock.seconds["train"] - seconds_before
        if choice is not None and choice.add(seconds, self.learner.updates - updates_before):
            self._act_beside(choice.threads)

    def _act_beside(self, training: int) -> None:
        """Acts on as many threads as fit to this number of training threads."""
        self._sampler.threads = self._run_plan.inference_threads_beside(training)

    def load_statistics(self) -> None:
        """Continues with the statistics of observations to which all learners have added so far."""
        load_observation_statistics(self.network, self._statistics)

    def acts_by_newest(self) -> None:
        """Sets the sampler's version to the learner's, after the parameters have changed."""
        self._sampler.version = self.learner.version

    @property
    def restarts(self) -> int:
        """Restarts of envs, as the last rollout counts them."""
        return int(self.slot.restarts.sum())

    def metrics(self, steps: int) -> dict[str, float]:
        """Metrics besides losses, after `steps` of training."""
        metrics = self.batch_source.metrics()
        if isinstance(self.algorithm, OffPolicy):
            explored = self.algorithm.exploration(self._schedule(steps))
            metrics |= checked_exploration(explored, self.algorithm)
        return metrics

    def close(self) -> None:
        self.envs.close()
