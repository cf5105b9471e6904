"""The replay shard: one of the memories that the experience of actors is shared out among.

actors ==slots==> shard ==rows of batches==> learner
                    ^                          |
                    +------- priorities -------+
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from veldt.config.train_config import TrainConfig
from veldt.envs.spec import EnvSpec
from veldt.envs.trajectory import Rows
from veldt.exchange.replay import ReplayEnds, ReplayOut, SampleRequest
from veldt.exchange.slots import Arrays, Slots
from veldt.replay.archive import NewRows, ReplayArchive
from veldt.replay.buffer import ReplayBuffer, ReplaySample
from veldt.replay.n_step import NStep
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.directory import RunDirectory
from veldt.runs.latest_checkpoint import newest_checkpoint
from veldt.runtime.cores import use_batch_scheduler
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout

_AT_ONCE = 16  # orders and priorities of a learner, before slots of actors are looked for again
_WAIT_S = 0.05  # seconds without a beat, while there is nothing to do


@dataclass(frozen=True)
class ShardPlan:
    """Shard `number` keeps `width` envs; those of its k-th actor begin at `first[k]` among them.

    `run` is the run's directory, if checkpoints are to hold the memory: its rows go to `replay/shard-<number>` there.
    """

    config: TrainConfig
    spec: EnvSpec
    returns: NStep
    number: int
    shards: int
    width: int
    first: Sequence[int]
    run: Path | None = None

    @property
    def group(self) -> str:
        """What its part of a checkpoint is called."""
        return f"shard-{self.number}"


def batch_layouts(spec: EnvSpec, rows: int) -> dict[str, Layout]:
    """The arrays of a batch: stacks of frames as [N, H, W, K]."""
    layouts = {}
    for name, field in spec.observation.items():
        shape = (*field.shape, field.stack) if field.stack > 1 else field.shape
        for which in ("observation", "next_observation"):
            layouts[f"{which}/{name}"] = Layout((rows, *shape), field.dtype)
    layouts["action"] = Layout((rows, *spec.action.shape), spec.action.dtype)
    layouts |= {name: Layout((rows,), "float32") for name in ("reward", "discount")}
    return layouts | {
        "mass": Layout((rows,), "float64"),
        "key": Layout((rows,), "int64"),
        "version": Layout((rows,), "int32"),
    }


def run_shard(control: Control, plan: ShardPlan, slots: Slots, *edges: ReplayEnds) -> None:
    """The role: stores, and draws and renews priorities for each of the learners, until it is told to stop."""
    use_batch_scheduler()  # batches are drawn ahead, and actors have a slot to fill while one is stored
    replay = plan.config.replay
    assert replay is not None
    share = dataclasses.replace(replay, buffer_size=max(1, replay.buffer_size // plan.shards))
    memory = ReplayBuffer(plan.spec, plan.width, share, plan.returns)
    keeper = None if plan.run is None else _ShardCheckpoints(control, plan, plan.run, memory)
    servers, incoming = [edge.server(plan.number) for edge in edges], slots.consumer()
    for server in servers:
        _publish_state(server, memory)
    while not control.stopping:
        control.heartbeat()
        if keeper is not None:
            keeper.poll()
        taken = incoming.take(0.0)
        if taken is not None:
            rows = Rows(plan.spec, taken.arrays)
            if keeper is not None:
                keeper.flush_before(rows.steps)
            memory.append(rows, taken.arrays["priority"], plan.first[taken.ring])
            incoming.release(taken.ring)
        is_idle = taken is None
        for server in servers:
            for found in itertools.islice(iter(server.take, None), _AT_ONCE):
                _execute(found[0], memory)
                server.done(*found)
                is_idle = False
            _publish_state(server, memory)
        if is_idle:
            incoming.wait(_WAIT_S)


class _ShardCheckpoints:
    """The memory's part in checkpoints: restored at the start, and said when a snapshot is wanted.

    New rows are written here, beside the run's checkpoints, by a thread; the rest is said when they are on the disk.
    """

    def __init__(self, control: Control, plan: ShardPlan, run: Path, memory: ReplayBuffer) -> None:
        self._control, self._plan = control, plan
        self._archive, self._writer = (
            ReplayArchive(RunDirectory(run).replay / plan.group, memory),
            BackgroundWriter(),
        )
        self._unsaid: dict[str, np.ndarray] | None = None
        self._segments: list[dict[str, Any]] = []
        self._number = 0
        checkpoint = newest_checkpoint(run)
        if checkpoint is not None and plan.group in checkpoint.groups:
            arrays: Mapping[str, np.ndarray] = checkpoint.groups[plan.group]
            self._archive.restore(checkpoint.meta["shards"][plan.group], arrays)
            # Actors have gone on since, or begin new episodes.
            memory.ring.part()

    def poll(self) -> None:
        """Begins a snapshot that is wanted, and says one that is written."""
        if self._unsaid is not None and self._writer.is_done:
            self._writer.finish()
            group = self._plan.group
            arrays = {f"{group}:{name}": array for name, array in self._unsaid.items()}
            self._control.send("part", arrays, number=self._number, group=group, segments=self._segments)
            self._unsaid = None
        elif self._unsaid is None and (number := self._control.requested_snapshot) not in (0, self._number):
            self._number = number
            rows, self._unsaid = self._archive.capture()
            self._writer.start(partial(self._write, rows))

    def flush_before(self, steps: int) -> None:
        """Called before `steps` more are stored: what they would overwrite must be on the disk."""
        if self._archive.would_overwrite(steps):
            while not self._writer.is_done:
                self._control.heartbeat()
                self._control.sleep(0.01)
            self._writer.finish()

    def _write(self, rows: NewRows) -> None:
        self._segments = self._archive.write(rows)


def _publish_state(server: ReplayOut, memory: ReplayBuffer) -> None:
    """What the memory holds."""
    server.state(memory.index.mass if len(memory) else 0.0, len(memory), memory.dropped)


def _execute(order: SampleRequest, memory: ReplayBuffer) -> None:
    if order.out is None:
        memory.update(order.key_N, order.priority_N)
    else:
        _write(memory.draw(len(order.out["key"]), order.seed), order.out)


def _write(sample: ReplaySample, out: Arrays) -> None:
    for which in ("observation", "next_observation"):
        for name, array in getattr(sample, which).items():
            to = out[f"{which}/{name}"]
            to[...] = array.transpose(0, 2, 3, 1) if to.shape != array.shape else array
    for name in ("action", "reward", "discount", "mass", "key", "version"):
        np.copyto(out[name], getattr(sample, f"{name}_N"))
