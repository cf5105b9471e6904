"""A sampler-learner as a role: it samples and learns, alone or beside others, counts its steps, and sends messages."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from veldt.algorithms.base import Loss
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.weights import Weights
from veldt.learning.snapshot import Groups
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.checkpoint_files import Checkpoint, restoring
from veldt.runs.directory import RunDirectory
from veldt.runtime.cores import take_share_of_cores, worker_cores
from veldt.runtime.devices import nth_device
from veldt.runtime.role_messages import Note
from veldt.runtime.roles import Control, Peers
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.messages import (
    ActorMetrics,
    CurrentWeights,
    FinishedEpisodes,
    SnapshotPart,
    UpdateMetrics,
    WrittenSegments,
)
from veldt.systems.roles.sampler_learner import GroupContext, SamplerLearner, WorkerRank
from veldt.tracking.stage_clock import StageClock

if TYPE_CHECKING:  # it loads numba
    from veldt.replay.archive import NewRows

_WAIT_S = 0.02  # seconds between checks whether there is something to do
_POLL_S = 0.005  # seconds between checks whether a checkpoint is complete
_SEND_S = 1.0  # seconds between messages with metrics


@dataclass(frozen=True)
class SamplerLearnerPlan:
    """The plan of the sampler-learner of rank `rank`.

    Args:
        run_plan: the run's; in a process of its own with a network that can be pickled.
        run: the run's directory, whose newest checkpoint it resumes from.
    """

    run_plan: RunPlan
    rank: int
    run: Path | None

    @property
    def group(self) -> str:
        """Name of its replay buffer in checkpoints."""
        return f"learner-{self.rank}"

    def placed(self, peers: Peers) -> Self:
        """Returns the plan for a process of its own: with its accelerator, and its share of this machine's cores."""
        run_plan = self.run_plan
        device = nth_device(str(run_plan.device), self.rank)
        take_share_of_cores(peers.index, peers.count)
        cores = tuple(worker_cores(run_plan.arrangement.processes, int(device.type != "cpu")))
        plan = dataclasses.replace(run_plan.arrangement, cores=cores)
        return dataclasses.replace(
            self, run_plan=dataclasses.replace(run_plan, device=device, arrangement=plan)
        )


class SyncState(NamedTuple):
    """What to do next, between two phases: of this sampler-learner or, where they are synchronised, of all.

    `steps` are the agent steps of all, `done` those of all ranks that share batches with this one; `snapshot` is the
    number of the requested snapshot (0: none).
    """

    steps: int
    done: int
    is_stopping: bool
    is_acting: bool
    snapshot: int


class SamplerLearnerRole(ABC):
    """Makes one phase in each turn; subclasses define what is shared, and how ranks synchronise.

    In a process of its own it takes turns until it is asked to stop (`run`); without one, the driver gives it its turns
    (`runtime.supervision.inline.InlineRole`). `own_groups` are the groups of a snapshot that each rank has for itself.
    """

    own_groups: tuple[str, ...] = ("envs", "episodes", "replay")

    def __init__(
        self,
        control: Control,
        plan: SamplerLearnerPlan,
        rate_limiter: RateLimiter,
        worker_rank: WorkerRank,
        context: GroupContext,
        own: Checkpoint | None,
    ) -> None:
        self._control, self._plan, self._rate_limiter, self._rank = control, plan, rate_limiter, plan.rank
        self._worker_rank, self._clock, self._update_metrics = worker_rank, StageClock(), UpdateMetrics()
        self._steps_A, self._updates_L = rate_limiter.steps_A, rate_limiter.updates_L
        self._reset_steps, self._sent_at, self._sent_snapshot = 0, time.monotonic(), 0
        self._is_in_phase = False
        self._writer = BackgroundWriter()
        # What the writer's thread has written and nobody was told: none after a failure, which a later call must not
        # take for the end of the writing.
        self._written: WrittenSegments | None = None
        config = plan.run_plan.config
        archive = None
        if plan.run is not None and config.run.checkpoint_replay == "full":
            archive = RunDirectory(plan.run).replay / plan.group
        self._sampler_learner = SamplerLearner(
            plan.run_plan, worker_rank, self._clock, archive, self._note, context
        )
        try:
            self.begin(own)
        except BaseException:
            self._sampler_learner.close()
            raise

    def run(self) -> None:
        """Takes turns until it is asked to stop."""
        try:
            while self.turn():
                pass
            self.flush(writing=True)
        finally:
            self.close()

    def turn(self) -> bool:
        """Sends its part of a requested snapshot, or makes a phase. Returns False when it is asked to stop."""
        control = self._control
        if self._is_waiting:
            control.heartbeat()
            control.sleep(_POLL_S)
            self._send_segments()
            return True
        now = self.sync_state()
        if now.is_stopping:
            return False
        control.heartbeat()
        self._send_segments()
        if now.snapshot not in (0, self._sent_snapshot):
            self._sent_snapshot = now.snapshot
            self._send_snapshot_part(now)
        elif now.is_acting:
            self._act_and_learn(now)
        else:
            control.sleep(_WAIT_S)
        if time.monotonic() - self._sent_at > _SEND_S:
            self._send_metrics()
        return True

    def flush(self, *, writing: bool = False, weights: bool = False) -> None:
        """Sends what it would send later; see `supervision.interfaces.RunningRoles`."""
        if writing:
            self._finish_writing()
            self._send_segments()
        self._send_metrics()
        if weights:
            self._control.send(CurrentWeights(self._sampler_learner.learner.weights(), self.second_weights()))

    def close(self) -> None:
        """Closes its envs."""
        self._sampler_learner.close()

    @property
    def _is_waiting(self) -> bool:
        """Whether it sends nothing more before the snapshot has all parts: synchronised ranks resume from it bit for
        bit."""
        wanted = self._control.requested_snapshot
        return (
            wanted != 0
            and wanted == self._sent_snapshot
            and self._worker_rank.is_synchronised
            and not self._control.stopping
        )

    @abstractmethod
    def sync_state(self) -> SyncState:
        """Returns what to do next."""

    @abstractmethod
    def after_phase(self) -> None:
        """Called after each phase."""

    @abstractmethod
    def before_snapshot(self) -> None:
        """Called before its part of a checkpoint is taken."""

    @abstractmethod
    def shared_groups(self, groups: Groups) -> Groups:
        """Returns the groups that a checkpoint has once for all ranks, from those of rank 0's snapshot."""

    def publish(self, weights: Weights | None) -> None:
        """Publishes the newest weights, from rank 0, if another role reads them."""
        if weights is not None and self._rank == 0:
            own = self._sampler_learner
            weights.publish(own.learner.version, own.parameters.arrays())

    def begin(self, own: Checkpoint | None) -> None:
        """Starts what has state, or restores it from `own`."""
        for text in self._sampler_learner.begin(own, int(self._steps_A[self._rank])):
            self._note(text, "resume")

    def second_weights(self) -> dict[str, np.ndarray]:
        """Returns the weights of another policy to be evaluated beside its own; {} if there is none."""
        return {}

    def exchange_metrics(self) -> dict[str, float]:
        """Metrics of the exchange between sampler-learners."""
        return {}

    def _act_and_learn(self, now: SyncState) -> None:
        sampler_learner = self._sampler_learner

        def updated(loss: Loss, lag: float, rate: float) -> None:
            self._updates_L[self._rank] = sampler_learner.learner.updates
            self._update_metrics.add(loss.metrics, (lag, lag, lag), rate)
            self._control.heartbeat()

        self._is_in_phase = True
        phase = sampler_learner.run_phase(now.steps, now.done, updated, self._finish_writing)
        self._is_in_phase = False
        self._update_metrics.rate = phase.learning_rate
        self._steps_A[self._rank] += phase.steps
        self._reset_steps += phase.reset_steps
        if phase.episodes:
            self._control.send(
                FinishedEpisodes.of_role(phase.episodes, self._worker_rank.seed, sampler_learner.first)
            )
        for text in sampler_learner.envs.notes():
            self._note(text, "restart")
        self.after_phase()

    def _send_metrics(self) -> None:
        self._sent_at = time.monotonic()
        counts = ActorMetrics(self._control.restart_count, self._reset_steps, self._sampler_learner.restarts)
        self._control.send(counts)
        source = self._sampler_learner.metrics(self._rate_limiter.steps) | self.exchange_metrics()
        updates = self._sampler_learner.learner.version
        self._control.send(self._update_metrics.take(updates, self._clock.seconds, source))

    def _send_snapshot_part(self, now: SyncState) -> None:
        """Sends its part of a snapshot, and starts writing its replay buffer's new rows."""
        self.flush(writing=True)  # messages sent later are not in the checkpoint
        self.before_snapshot()
        # After a phase that failed, emulators have moved on: envs are rebuilt from the actions of their episodes.
        content = self._sampler_learner.snapshot.take(
            {} if self._is_in_phase else self._sampler_learner.envs.save()
        )
        groups = self.shared_groups(content.groups) if self._rank == 0 else {}
        groups |= {
            f"{name}-{self._rank}": content.groups[name] for name in self.own_groups if name in content.groups
        }
        self._control.send(
            SnapshotPart(
                now.snapshot,
                groups,
                rank=self._rank,
                updates=self._sampler_learner.learner.updates,
                steps=int(self._steps_A[self._rank]),
                state=content.meta | self._state_besides(now),
                replay=None if content.rows is None else self._plan.group,
            )
        )
        if content.rows is not None:
            self._writer.start(partial(self._write, now.snapshot, content.rows))

    def _state_besides(self, now: SyncState) -> dict[str, Any]:
        choice = self._sampler_learner.thread_choice
        chosen = {} if choice is None else {"threads": choice.threads}
        return {"seed": self._worker_rank.seed, "steps": now.done, **chosen}

    def _write(self, snapshot: int, rows: NewRows) -> None:
        assert self._sampler_learner.archive is not None
        segments = self._sampler_learner.archive.write(rows)
        self._written = WrittenSegments(snapshot, self._plan.group, segments)

    def _send_segments(self) -> None:
        """Sends the records of a snapshot's rows, if they are on disk."""
        self._writer.check()
        if self._written is not None and self._writer.is_done:
            self._control.send(self._written)
            self._written = None

    def _finish_writing(self) -> None:
        while not self._writer.is_done:
            self._control.heartbeat()
            self._control.sleep(_WAIT_S)
        self._writer.finish()

    def _note(self, text: str, about: str = "note") -> None:
        self._control.send(Note(text, about))


def state_of_rank(checkpoint: Checkpoint | None, plan: SamplerLearnerPlan) -> Checkpoint | None:
    """Returns this rank's state in a checkpoint, as a run with one sampler-learner would have written it."""
    if checkpoint is None:
        return None
    ending = f"-{plan.rank}"
    own = {
        name.removesuffix(ending): arrays
        for name, arrays in checkpoint.groups.items()
        if name.endswith(ending)
    }
    with restoring(checkpoint):
        meta = checkpoint.meta["learners"][str(plan.rank)]
        if (segments := checkpoint.meta["segments"].get(plan.group)) is not None:
            meta = meta | {"replay": segments}
        return dataclasses.replace(checkpoint, step=meta["steps"], meta=meta, groups=checkpoint.groups | own)
