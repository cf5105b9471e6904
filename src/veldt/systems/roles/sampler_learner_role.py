"""A unit as a role: it samples and learns beside others, counts its steps, and says what happened."""

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
from veldt.runtime.roles import Control, Peers
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.episode_messages import send_episodes
from veldt.systems.roles.sampler_learner import GroupContext, SamplerLearner, WorkerRank
from veldt.systems.roles.update_metrics import UpdateMetrics
from veldt.tracking.stage_clock import StageClock

_WAIT_S = 0.02  # seconds between looks whether there is something to do
_LOOK_S = 0.005  # seconds between looks whether a checkpoint is complete
_SAY_S = 1.0  # seconds between messages about how it goes


@dataclass(frozen=True)
class SamplerLearnerPlan:
    """Unit `rank` of as many as there are learners.

    Args:
        run_plan: the run's, with a network that travels.
        run: the run's directory, whose newest checkpoint it goes on from.
    """

    run_plan: RunPlan
    rank: int
    run: Path | None

    @property
    def group(self) -> str:
        """What its replay buffer is called in checkpoints."""
        return f"unit-{self.rank}"


class SyncState(NamedTuple):
    """What is to be done, at one moment between two phases: by this unit or, where they go together, by all.

    `steps` are done by all units, `done` by those who share batches with this one; `requested_snapshot` is wanted (0: none).
    """

    steps: int
    done: int
    is_stopping: bool
    is_acting: bool
    snapshot: int


class SamplerLearnerRole(ABC):
    """Phase after phase until it is told to stop; the kinds say what units have in common, and how they agree.

    `own_groups` are the groups of a unit's snapshot that each has for itself.
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
        self._reset_steps, self._said_at, self._said_snapshot = 0, time.monotonic(), 0
        self._writer = BackgroundWriter()
        config = plan.run_plan.config
        keeps = plan.run is not None and config.run.checkpoint_replay == "full"
        archive = RunDirectory(plan.run).replay / plan.group if keeps and plan.run is not None else None
        run_plan = _with_device_and_cores(plan.run_plan, plan.rank, control.peers)
        self._unit = SamplerLearner(run_plan, place, self._clock, archive, self._note, ties)
        try:
            for text in self._unit.begin(own, int(rate_limiter.steps_A[plan.rank])):
                self._note(text, "resume")
        except BaseException:
            self._unit.close()
            raise

    def run(self) -> None:
        """Until it is told to stop."""
        try:
            while not (now := self.sync_state()).is_stopping:
                self._control.heartbeat()
                if now.snapshot not in (0, self._said_snapshot):
                    self._said_snapshot = now.snapshot
                    self._say_part(now)
                if now.is_acting:
                    self._act_and_learn(now)
                else:
                    self._control.sleep(_WAIT_S)
                self._say_how_it_goes(is_due=time.monotonic() - self._said_at > _SAY_S)
            self._say_how_it_goes(is_due=True)
        finally:
            self._unit.close()

    @abstractmethod
    def sync_state(self) -> SyncState:
        """What is to be done."""

    @abstractmethod
    def after_phase(self) -> None:
        """Called when a phase is over."""

    @abstractmethod
    def before_snapshot(self) -> None:
        """Called before its part of a checkpoint is taken."""

    @abstractmethod
    def shared_groups(self, groups: Groups) -> Groups:
        """Groups that a checkpoint has once for all units, from those of the first one's snapshot."""

    def exchange_metrics(self) -> dict[str, float]:
        """Figures of what units have in common."""
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
            send_episodes(self._control, phase.episodes, self._place.seed, unit.first)
        for text in unit.envs.notes():
            self._note(text, "restart")
        self.after_phase()

    def _say_how_it_goes(self, *, is_due: bool) -> None:
        if not is_due:
            return
        self._said_at = time.monotonic()
        self._control.send(
            "actor",
            attempt=self._control.restart_count,
            reset_steps=self._reset_steps,
            env_restarts=self._unit.restarts,
        )
        if self._update_metrics.has_any:
            self._control.send(
                "metrics",
                **self._update_metrics.take(),
                updates=self._unit.learner.version,
                seconds=self._clock.seconds,
                experience=self._unit.metrics(self._rate_limiter.steps) | self.exchange_metrics(),
            )

    def _say_part(self, now: SyncState) -> None:
        """Its part of a snapshot, when its replay buffer's is on the disk."""
        self._say_how_it_goes(is_due=True)  # what comes later is not in the checkpoint
        self.before_snapshot()
        taken = self._unit.snapshot.take(self._unit.envs.save())
        segments: list[dict[str, Any]] = []
        if taken.rows is not None and self._unit.archive is not None:
            write, rows = self._unit.archive.write, taken.rows
            self._writer.start(lambda: segments.extend(write(rows)))
            self._finish_writing()
        groups = self.shared_groups(taken.groups) if self._rank == 0 else {}
        groups |= {
            f"{name}-{self._rank}": taken.groups[name] for name in self.own_groups if name in taken.groups
        }
        arrays = {f"{group}:{name}": array for group, part in groups.items() for name, array in part.items()}
        meta = taken.meta | {"seed": self._place.seed, "steps": now.done}
        own_steps = int(self._rate_limiter.steps_A[self._rank])
        replay = {"group": self._plan.group, "segments": segments} if taken.rows is not None else {}
        updates = self._unit.learner.updates
        self._control.send(
            "part",
            arrays,
            number=now.snapshot,
            rank=self._rank,
            updates=updates,
            steps=own_steps,
            unit=meta,
            **replay,
        )
        # Of units that go on bit for bit from a checkpoint, none says anything more before it is complete.
        while (
            self._place.is_synchronised
            and self._control.requested_snapshot == now.snapshot
            and not self._control.stopping
        ):
            self._control.heartbeat()
            self._control.sleep(_LOOK_S)

    def _finish_writing(self) -> None:
        while not self._writer.is_done:
            self._control.heartbeat()
            self._control.sleep(_WAIT_S)
        self._writer.finish()

    def _note(self, text: str, about: str = "note") -> None:
        self._control.send("note", about=about, text=text)


def state_of_rank(checkpoint: Checkpoint | None, plan: SamplerLearnerPlan) -> Checkpoint | None:
    """What of a checkpoint is this unit's, as a unit that is alone would have written it."""
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
    """With the accelerator of this rank, if there are any, and with its share of the cores of this machine."""
    device = nth_device(str(run_plan.device), rank)
    take_share_of_cores(peers.index, peers.count)
    chosen = run_plan.plan
    cores = tuple(worker_cores(chosen.processes, int(device.type == "cuda")))
    return dataclasses.replace(run_plan, device=device, plan=dataclasses.replace(chosen, cores=cores))
