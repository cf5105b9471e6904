"""A sampler-learner as a role: it samples and learns beside others, counts its steps, and sends messages."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from veldt.algorithms.base import Loss
from veldt.exchange.rate_limiter import RateLimiter
from veldt.learning.snapshot import Groups
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.directory import RunDirectory
from veldt.runtime.cores import take_share_of_cores, worker_cores
from veldt.runtime.devices import nth_device
from veldt.runtime.role_messages import Note
from veldt.runtime.roles import Control, Peers
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.messages import ActorMetrics, FinishedEpisodes, SnapshotPart
from veldt.systems.roles.sampler_learner import GroupContext, SamplerLearner, WorkerRank
from veldt.systems.roles.update_metrics import UpdateMetrics
from veldt.tracking.stage_clock import StageClock

_WAIT_S = 0.02  # seconds between checks whether there is something to do
_POLL_S = 0.005  # seconds between checks whether a checkpoint is complete
_SEND_S = 1.0  # seconds between messages with metrics


@dataclass(frozen=True)
class SamplerLearnerPlan:
    """The plan of the sampler-learner of rank `rank`.

    Args:
        run_plan: the run's, with a network that can be pickled.
        run: the run's directory, whose newest checkpoint it resumes from.
    """

    run_plan: RunPlan
    rank: int
    run: Path | None

    @property
    def group(self) -> str:
        """Name of its replay buffer in checkpoints."""
        return f"unit-{self.rank}"


class SyncState(NamedTuple):
    """What to do next, between two phases: of this sampler-learner or, where they are synchronised, of all.

    `steps` are the env steps of all, `done` those of the ones who share batches with this one; `snapshot` is the number
    of the requested snapshot (0: none).
    """

    steps: int
    done: int
    is_stopping: bool
    is_acting: bool
    snapshot: int


class SamplerLearnerRole(ABC):
    """Runs phase after phase until it is asked to stop; subclasses define what is shared, and how ranks synchronise.

    `own_groups` are the groups of a snapshot that each rank has for itself.
    """

    own_groups: tuple[str, ...] = ("envs", "episodes", "replay")

    def __init__(
        self,
        control: Control,
        plan: SamplerLearnerPlan,
        rate_limiter: RateLimiter,
        place: WorkerRank,
        ties: GroupContext,
        own: Checkpoint | None,
    ) -> None:
        self._control, self._plan, self._rate_limiter, self._rank = control, plan, rate_limiter, plan.rank
        self._place, self._clock, self._update_metrics = place, StageClock(), UpdateMetrics()
        self._reset_steps, self._sent_at, self._said_snapshot = 0, time.monotonic(), 0
        self._writer = BackgroundWriter()
        config = plan.run_plan.config
        with_replay = plan.run is not None and config.run.checkpoint_replay == "full"
        archive = RunDirectory(plan.run).replay / plan.group if with_replay and plan.run is not None else None
        run_plan = _with_device_and_cores(plan.run_plan, plan.rank, control.peers)
        self._unit = SamplerLearner(run_plan, place, self._clock, archive, self._note, ties)
        try:
            for text in self._unit.begin(own, int(rate_limiter.steps_A[plan.rank])):
                self._note(text, "resume")
        except BaseException:
            self._unit.close()
            raise

    def run(self) -> None:
        """Runs phases until it is asked to stop."""
        try:
            while not (now := self.sync_state()).is_stopping:
                self._control.heartbeat()
                if now.snapshot not in (0, self._said_snapshot):
                    self._said_snapshot = now.snapshot
                    self._send_snapshot_part(now)
                if now.is_acting:
                    self._act_and_learn(now)
                else:
                    self._control.sleep(_WAIT_S)
                self._send_metrics(is_due=time.monotonic() - self._sent_at > _SEND_S)
            self._send_metrics(is_due=True)
        finally:
            self._unit.close()

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

    def exchange_metrics(self) -> dict[str, float]:
        """Metrics of the exchange between sampler-learners."""
        return {}

    def _act_and_learn(self, now: SyncState) -> None:
        unit, rate_limiter = self._unit, self._rate_limiter

        def updated(loss: Loss, lag: float, rate: float) -> None:
            rate_limiter.updates_L[self._rank] = unit.learner.updates
            self._update_metrics.add(loss.metrics, np.array([lag]), rate)
            self._control.heartbeat()

        phase = unit.run_phase(now.steps, now.done, updated, self._finish_writing)
        rate_limiter.steps_A[self._rank] += phase.steps
        self._reset_steps += phase.reset_steps
        if phase.episodes:
            self._control.send(FinishedEpisodes.of_role(phase.episodes, self._place.seed, unit.first))
        for text in unit.envs.notes():
            self._note(text, "restart")
        self.after_phase()

    def _send_metrics(self, *, is_due: bool) -> None:
        if not is_due:
            return
        self._sent_at = time.monotonic()
        counts = ActorMetrics(self._control.restart_count, self._reset_steps, self._unit.restarts)
        self._control.send(counts)
        if self._update_metrics.has_any:
            source = self._unit.metrics(self._rate_limiter.steps) | self.exchange_metrics()
            updates = self._unit.learner.version
            self._control.send(self._update_metrics.take(updates, self._clock.seconds, source))

    def _send_snapshot_part(self, now: SyncState) -> None:
        """Sends its part of a snapshot, when its replay buffer's part is on disk."""
        self._send_metrics(is_due=True)  # messages sent later are not in the checkpoint
        self.before_snapshot()
        content = self._unit.snapshot.take(self._unit.envs.save())
        segments: list[dict[str, Any]] = []
        if content.rows is not None and self._unit.archive is not None:
            write, rows = self._unit.archive.write, content.rows
            self._writer.start(lambda: segments.extend(write(rows)))
            self._finish_writing()
        groups = self.shared_groups(content.groups) if self._rank == 0 else {}
        groups |= {
            f"{name}-{self._rank}": content.groups[name] for name in self.own_groups if name in content.groups
        }
        self._control.send(
            SnapshotPart(
                now.snapshot,
                groups,
                rank=self._rank,
                updates=self._unit.learner.updates,
                steps=int(self._rate_limiter.steps_A[self._rank]),
                state=content.meta | {"seed": self._place.seed, "steps": now.done},
                segments={self._plan.group: segments} if content.rows is not None else {},
            )
        )
        # Synchronised ranks resume bit for bit from a checkpoint: none sends anything more before it is complete.
        while (
            self._place.is_synchronised
            and self._control.requested_snapshot == now.snapshot
            and not self._control.stopping
        ):
            self._control.heartbeat()
            self._control.sleep(_POLL_S)

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
    meta = checkpoint.meta["units"][str(plan.rank)]
    ending = f"-{plan.rank}"
    own = {
        name.removesuffix(ending): arrays
        for name, arrays in checkpoint.groups.items()
        if name.endswith(ending)
    }
    if (segments := checkpoint.meta["shards"].get(plan.group)) is not None:
        meta = meta | {"replay": segments}
    return dataclasses.replace(checkpoint, step=meta["steps"], meta=meta, groups=checkpoint.groups | own)


def _with_device_and_cores(run_plan: RunPlan, rank: int, peers: Peers) -> RunPlan:
    """Returns the run plan with this rank's accelerator, if there is one, and its share of this machine's cores."""
    device = nth_device(str(run_plan.device), rank)
    take_share_of_cores(peers.index, peers.count)
    chosen = run_plan.plan
    cores = tuple(worker_cores(chosen.processes, int(device.type == "cuda")))
    return dataclasses.replace(run_plan, device=device, plan=dataclasses.replace(chosen, cores=cores))
