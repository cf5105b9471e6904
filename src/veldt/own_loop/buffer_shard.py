"""The process of a part of a `DistributedBuffer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from veldt.exchange.replay import ReplayEnds
from veldt.exchange.slots import ReceivedSlot, Slots
from veldt.own_loop.buffer_ends import COUNT, PRIORITY
from veldt.replay.row_buffer import RowBuffer
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout
from veldt.systems.roles.replay_serving import ReplayService


@dataclass(frozen=True)
class BufferShardPlan:
    """Shard `number` stores so many rows of these arrays; `alpha` is the exponent of its priorities, 0: uniform."""

    layouts: Mapping[str, Layout]
    rows: int
    alpha: float
    number: int


def run_buffer_shard(
    control: Control, plan: BufferShardPlan, rows: Slots, batches: Sequence[ReplayEnds]
) -> None:
    """Entry point of the role: stores rows, draws batches and renews priorities until it is asked to stop."""
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
