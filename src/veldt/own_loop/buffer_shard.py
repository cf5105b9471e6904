"""The process of a part of a `DistributedBuffer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from veldt.errors import UsageError
from veldt.exchange.replay import ReplayEnds
from veldt.exchange.slots import ReceivedSlot, Slots
from veldt.formatting import gib
from veldt.own_loop.buffer_ends import COUNT
from veldt.own_loop.row_format import PRIORITY
from veldt.replay.row_buffer import RowBuffer
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout
from veldt.runtime.system_memory import available_memory
from veldt.systems.roles.replay_serving import ReplayService


@dataclass(frozen=True)
class BufferShardPlan:
    """Shard `number` of the buffer's `shards` stores so many rows of these arrays; `alpha` is the exponent of its
    priorities, 0: uniform."""

    buffer: str
    layouts: Mapping[str, Layout]
    rows: int
    alpha: float
    number: int
    shards: int


def run_buffer_shard(
    control: Control, plan: BufferShardPlan, rows: Slots, batches: Sequence[ReplayEnds]
) -> None:
    """Entry point of the role: stores rows, draws batches and renews priorities until it is asked to stop."""
    _check_memory(control, plan)
    buffer = RowBuffer(plan.layouts, plan.rows, plan.alpha)

    def store(received: ReceivedSlot) -> None:
        count = int(received.arrays[COUNT][0])
        arrays = {name: received.arrays[name][:count] for name in plan.layouts}
        buffer.append(arrays, received.arrays[PRIORITY][:count])

    servers = [edge.server(plan.number) for edge in batches]
    service = ReplayService(buffer, rows.consumer(), servers, store)
    while not control.stopping:
        control.heartbeat()
        service.step()


def _check_memory(control: Control, plan: BufferShardPlan) -> None:
    """Raises UsageError if the buffer's shards on this machine need more memory than it has available."""
    here = min(control.peers.count, plan.shards)  # peers may also be shards of other buffers
    needed = here * plan.rows * sum(layout.nbytes for layout in plan.layouts.values())
    if needed > (available := available_memory()):
        raise UsageError(
            f"the buffer '{plan.buffer}' needs {gib(needed)} on this machine, for {here * plan.rows:,} rows, and "
            f"{gib(available)} of memory are available: take a smaller capacity, or smaller rows"
        )
