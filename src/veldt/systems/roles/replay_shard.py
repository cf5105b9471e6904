"""The replay shard: one of the replay buffers that the actors' experience is distributed over.

actors ==slots==> shard ==rows of batches==> learner
                    ^                           |
                    +----- priorities ----------+
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from veldt.config.train_config import TrainConfig
from veldt.envs.spec import EnvSpec
from veldt.envs.trajectory import Rows
from veldt.exchange.replay import ReplayEnds
from veldt.exchange.slots import ReceivedSlot, Slots
from veldt.replay.archive import NewRows, ReplayArchive
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.settings import NStep
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.checkpoint_files import restoring
from veldt.runs.checkpoints import newest_checkpoint
from veldt.runs.directory import RunDirectory
from veldt.runtime.cores import use_batch_scheduler
from veldt.runtime.roles import Control
from veldt.systems.roles.messages import SnapshotPart, WrittenSegments
from veldt.systems.roles.replay_serving import ReplayService


@dataclass(frozen=True)
class ShardPlan:
    """Shard `number` stores the steps of `width` envs; its k-th actor's envs start at `first[k]` among them.

    Each step is stored `insertions` times: copies are kept as if they were of other envs.
    `run` is the run's directory if checkpoints include the replay buffer; rows go to `replay/shard-<number>` there.
    """

    config: TrainConfig
    spec: EnvSpec
    returns: NStep
    number: int
    shards: int
    width: int
    first: Sequence[int]
    run: Path | None = None
    insertions: int = 1

    @property
    def group(self) -> str:
        """Name of its group in a checkpoint."""
        return f"shard-{self.number}"


def run_shard(control: Control, plan: ShardPlan, slots: Slots, batches: Sequence[ReplayEnds]) -> None:
    """Entry point of the role: stores rows, samples and updates priorities for each learner until asked to stop."""
    use_batch_scheduler()  # batches are drawn ahead, and actors have a free slot while one is stored
    shard = ReplayShard(control, plan, slots, batches)
    while not control.stopping:
        control.heartbeat()
        shard.step()


class ReplayShard:
    """A replay buffer with its ends of the edges from actors and to learners."""

    def __init__(
        self, control: Control, plan: ShardPlan, slots: Slots, batches: Sequence[ReplayEnds]
    ) -> None:
        self._plan, settings = plan, plan.config.replay_of(plan.shards)
        self._buffer = ReplayBuffer(plan.spec, plan.width * plan.insertions, settings, plan.returns)
        self._checkpoints = (
            None if plan.run is None else _ShardCheckpoints(control, plan, plan.run, self._buffer)
        )
        servers = [edge.server(plan.number) for edge in batches]
        self._service = ReplayService(self._buffer, slots.consumer(), servers, self._store)

    def step(self) -> None:
        """Stores a slot and carries out requests; waits a moment where there is neither."""
        if self._checkpoints is not None:
            self._checkpoints.poll()
        self._service.step()

    def _store(self, received: ReceivedSlot) -> None:
        plan, rows = self._plan, Rows(self._plan.spec, received.arrays)
        if self._checkpoints is not None:
            self._checkpoints.flush_before(rows.steps)
        for copy in range(plan.insertions):
            first = plan.first[received.ring] + copy * plan.width
            if received.arrays["is_first"]:  # a restarted actor plays other episodes
                self._buffer.ring.part(slice(first, first + rows.width))
            self._buffer.append(rows, received.arrays["priority"], first)


class _ShardCheckpoints:
    """The replay buffer's part in checkpoints: restores it at the start, and sends it when a snapshot is requested.

    A thread writes new rows to disk beside the run's checkpoints.
    """

    def __init__(self, control: Control, plan: ShardPlan, run: Path, buffer: ReplayBuffer) -> None:
        self._control, self._plan = control, plan
        self._archive = ReplayArchive(RunDirectory(run).replay / plan.group, buffer)
        self._writer = BackgroundWriter()
        self._is_writing = False
        self._segments: list[dict[str, Any]] = []
        self._number = 0
        checkpoint = newest_checkpoint(run)
        if checkpoint is not None and plan.group in checkpoint.groups:
            arrays: Mapping[str, np.ndarray] = checkpoint.groups[plan.group]
            with restoring(checkpoint):
                self._archive.restore(checkpoint.meta["segments"][plan.group], arrays)
            # Actors have played on since, or start new episodes.
            buffer.ring.part()

    def poll(self) -> None:
        """Sends its part of a requested snapshot, and later the records of its rows."""
        group = self._plan.group
        if self._is_writing and self._writer.is_done:
            self._writer.finish()
            self._control.send(WrittenSegments(self._number, group, self._segments))
            self._is_writing = False
        elif not self._is_writing and (number := self._control.requested_snapshot) not in (0, self._number):
            self._number, self._is_writing = number, True
            rows, state = self._archive.capture()
            self._control.send(SnapshotPart(number, {group: state}, replay=group))
            self._writer.start(partial(self._write, rows))

    def flush_before(self, steps: int) -> None:
        """Called before `steps` more rows are stored: waits until the rows they would overwrite are on disk."""
        if self._archive.would_overwrite(steps):
            while not self._writer.is_done:
                self._control.heartbeat()
                self._control.sleep(0.01)
            self._writer.finish()

    def _write(self, rows: NewRows) -> None:
        self._segments = self._archive.write(rows)
