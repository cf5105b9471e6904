"""The replay shard: one of the memories that the experience of actors is shared out among.

actors ==slots==> shard ==rows of batches==> learner
                    ^                          |
                    +------- priorities -------+
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Semaphore

import numpy as np

from veldt.config import TrainConfig
from veldt.exchange.replay import Order, ReplayEdge, ReplayServer
from veldt.exchange.slots import Arrays, Consumer, SlotRings
from veldt.replay.memory import Replay, Sample
from veldt.replay.n_step import NStep
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout
from veldt.simulators.spec import SimulatorSpec
from veldt.simulators.trajectory import Rows

_WAIT_S = 0.05  # seconds without a beat, while there is nothing to do


@dataclass(frozen=True)
class ShardPlan:
    """Shard `number` keeps `width` simulators; those of its k-th actor begin at `first[k]` among them."""

    config: TrainConfig
    spec: SimulatorSpec
    returns: NStep
    number: int
    shards: int
    width: int
    first: Sequence[int]


def batch_layouts(spec: SimulatorSpec, rows: int) -> dict[str, Layout]:
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


def run_shard(control: Control, plan: ShardPlan, slots: SlotRings, edge: ReplayEdge, wake: Semaphore) -> None:
    """The role: stores, draws and renews priorities until it is told to stop."""
    replay = plan.config.replay
    assert replay is not None
    share = dataclasses.replace(replay, replay_size=max(1, replay.replay_size // plan.shards))
    memory = Replay(plan.spec, plan.width, share, plan.returns)
    server, incoming = ReplayServer(edge, plan.number), Consumer(slots)
    while not control.stopping:
        control.beat()
        taken, found = incoming.take(0.0), server.take()
        if taken is not None:
            rows = Rows(plan.spec, taken.arrays)
            memory.append(rows, taken.arrays["priority"], plan.first[taken.ring])
            incoming.release(taken.ring)
        if found is not None:
            _carry_out(found[0], memory)
            server.done(*found)
        if taken is None and found is None:
            wake.acquire(True, _WAIT_S)
            continue
        server.state(memory.index.mass if len(memory) else 0.0, len(memory), memory.dropped)


def _carry_out(order: Order, memory: Replay) -> None:
    if order.out is None:
        memory.update(order.key_N, order.priority_N)
    else:
        _write(memory.draw(len(order.out["key"]), order.seed), order.out)


def _write(sample: Sample, out: Arrays) -> None:
    for which in ("observation", "next_observation"):
        for name, array in getattr(sample, which).items():
            to = out[f"{which}/{name}"]
            to[...] = array.transpose(0, 2, 3, 1) if to.shape != array.shape else array
    for name in ("action", "reward", "discount", "mass", "key", "version"):
        np.copyto(out[name], getattr(sample, f"{name}_N"))
