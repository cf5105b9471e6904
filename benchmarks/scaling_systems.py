"""The stations of each system, and what one step takes of them.

An actor is a core that steps `width` envs. Learning is on devices, or where there are none on a core. Edges are
those of one machine, or Ray's messages (`by_ray`), of which each end pays for packing its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scaling_model import Chain, LinearCost, Station, alternating


@dataclass(frozen=True)
class Costs:
    """Seconds. Lines are of one core but for `infer_at` and `update_at`, which are of what learns.

    Args:
        simulate: a step.
        infer, update: a batch of rows, on a core.
        infer_at, update_at: on the device that learns; the fixed part is its host's.
        reduce: an all-reduce of so many bytes among so many learners.
        carry: so many bytes between host and device.
        edges: "publish", "pull", "hand over", "take" by bytes; "add", "draw", "renew" by rows; "store", "rule" by
            parameters; "request", "reply" by agents; "wake" of another process and by it; "message" by Ray, by bytes.
        parameters: float32.
        step_bytes, row_bytes: of a step as it is stored, and of a transition as it is learned from.
    """

    simulate: float
    infer: LinearCost
    update: LinearCost
    infer_at: LinearCost
    update_at: LinearCost
    reduce: Callable[[float, float], float]
    carry: Callable[[float], float]
    edges: Mapping[str, LinearCost]
    parameters: int
    step_bytes: float
    row_bytes: float

    def __getitem__(self, edge: str) -> LinearCost:
        return self.edges[edge]

    @property
    def parameter_bytes(self) -> int:
        return 4 * self.parameters


def synchronous(
    c: Costs,
    gpus: float,
    actors: float,
    width: int = 16,
    horizon: int = 5,
    epochs: int = 1,
    minibatches: int = 1,
) -> list[Chain]:
    """Units that sample, learn and reduce in turn; `actors` worker processes are shared out among them."""
    rows = actors / gpus * width * horizon  # of a unit's phase
    updates = epochs * minibatches
    return alternating(
        *_acting(c, gpus, actors, width),
        Station("update", updates * c.update_at(rows / minibatches) / rows, gpus),
        Station("all-reduce", updates * c.reduce(c.parameter_bytes, gpus) / rows, gpus),
    )


def asynchronous(
    c: Costs, gpus: float, actors: float, width: int = 16, horizon: int = 5, chunks: int = 3
) -> list[Chain]:
    """Units that sample and learn, and bring each update to a store of which as many parts may be updated at once."""
    rows = actors / gpus * width * horizon
    # The rule's state and the parameters, there and back; on a core it is the store's own work.
    exchange_s = c.carry(4 * c.parameter_bytes) or c["store"](c.parameters)
    chains = alternating(
        *_acting(c, gpus, actors, width),
        Station("update", c.update_at(rows) / rows, gpus),
        Station("exchange", exchange_s / rows, gpus),
    )
    return [*chains, (Station("store's chunks", exchange_s / rows, min(chunks, gpus)),)]


def _acting(c: Costs, gpus: float, actors: float, width: int) -> tuple[Station, Station]:
    """Envs in worker processes, and inference for one of a unit's two groups, which wakes its workers."""
    workers = actors / gpus
    group = workers * width / 2
    return (
        Station("envs", c.simulate, actors),
        Station("inference", (c.infer_at(group) + workers * c["wake"](1)) / group, gpus),
    )


def gorila(
    c: Costs,
    gpus: float,
    actors: float,
    width: int = 16,
    batch: int = 512,
    intensity: float = 8.0,
    shards: int = 4,
    by_ray: bool = False,
) -> list[Chain]:
    """Bundles that sample, draw, learn, push and pull in turn: one for each device, or else one on each core."""
    steps = batch / intensity  # of an update
    bundles = gpus or actors
    edge_s = c["hand over"](c.parameter_bytes) + c["pull"](c.parameter_bytes)
    server_s = c["rule"](c.parameters) + c["publish"](c.parameter_bytes) / bundles
    if by_ray:  # a message to each shard and one from each
        edge_s = 2 * (shards * c["message"].fixed + c["message"].each * c.parameter_bytes)
        server_s += edge_s
    learning = (
        Station("draw", (c["draw"](batch) + c["renew"](batch)) / steps, bundles),
        Station("update", (c.update_at(batch) + c.carry(batch * c.row_bytes)) / steps, bundles),
        Station("push and pull", (edge_s + c.carry(2 * c.parameter_bytes)) / steps, bundles),
    )
    server = (Station("parameter shards", server_s / steps, shards),)
    if gpus:
        return [*alternating(*_acting(c, gpus, actors, width), *learning), server]
    acting = (
        Station("envs", c.simulate, bundles),
        Station("inference", c.infer(width) / width, bundles),
    )
    return [(*acting, *learning), server]


def ga3c(c: Costs, actors: float, width: int = 16, horizon: int = 5, rows: int = 80) -> list[Chain]:
    """Hosts of agents, and one model: Python's part of it takes turns, the device's continues beside it.

    An update asks for the values of its rows first.
    """
    asked = min(128, actors * width / 2)  # at once: as many others are being simulated
    host_s = c.simulate + c["request"](1) + c["wake"](1)
    host_s += c["hand over"](horizon * c.step_bytes) / horizon
    python_s = (c["reply"](asked) + c.infer_at.fixed) / asked
    python_s += (c["take"](rows * c.step_bytes) + c.infer_at.fixed + c.update_at.fixed) / rows
    device_s = 2 * c.infer_at.each + c.update_at.each + c.carry(c.row_bytes + c.step_bytes)
    return [
        (Station("agents", host_s, actors),),
        (Station("model's process", python_s),),
        (Station("device", device_s),),
    ]


def apex(
    c: Costs,
    gpus: float,
    actors: float,
    width: int = 16,
    batch: int = 512,
    intensity: float = 8.0,
    shards: int = 4,
    actor_sync_interval: int = 100,
    flush: int = 50,
    by_ray: bool = False,
) -> list[Chain]:
    """Actors, replay shards, and learners that share each batch."""
    slot = max(-(-flush // width), 3) * width  # steps that are handed over together
    share = batch / gpus
    part = share / shards  # of a batch for one learner, from one shard
    messages_s, carried_s, copied_s = 0.0, 0.0, c["hand over"](slot * c.step_bytes) / slot
    if by_ray:
        copied_s = messages_s = c["message"](slot * c.step_bytes) / slot
        # Letters of some batches each, as the learner's orders come: their bytes are what counts.
        carried_s = intensity * c["message"].each * c.row_bytes
    actor_s = c.simulate + c.infer(width) / width * (1 + width / slot) + copied_s
    actor_s += c["pull"](c.parameter_bytes) / actor_sync_interval
    shard_s = (
        c["add"](slot) / slot
        + messages_s
        + carried_s
        + intensity * (c["draw"](part) + c["renew"](part)) / part
    )
    update_s = c.update_at(share) + c.carry(share * c.row_bytes)
    return [
        (Station("actors", actor_s, actors),),
        (Station("replay shards", shard_s, shards),),
        (
            Station("update", intensity * update_s / batch),
            Station("publishing", intensity * c["publish"](c.parameter_bytes) / batch),
            Station("all-reduce", intensity * c.reduce(c.parameter_bytes, gpus) / batch),
        ),
        (Station("learner's messages", carried_s, gpus),),
    ]


def impala(
    c: Costs,
    gpus: float,
    actors: float,
    width: int = 16,
    horizon: int = 20,
    unrolls: float = 32,
    by_ray: bool = False,
) -> list[Chain]:
    """Actors, and learners with so many unrolls each."""
    slot, rows = horizon * width, horizon * unrolls
    handed_s, carried_s = c["hand over"](slot * c.step_bytes) / slot, 0.0
    if by_ray:
        handed_s = carried_s = c["message"](slot * c.step_bytes) / slot
    actor_s = c.simulate + c.infer(width) / width * (1 + 1 / horizon) + handed_s
    actor_s += c["pull"](c.parameter_bytes) / slot
    return [
        (Station("actors", actor_s, actors),),
        (
            Station("batches", c["take"](slot * c.step_bytes) / slot + c.carry(c.step_bytes), gpus),
            Station("update", c.update_at(rows) / rows, gpus),
            Station("publishing", c["publish"](c.parameter_bytes) / rows, gpus),
            Station("all-reduce", c.reduce(c.parameter_bytes, gpus) / rows, gpus),
        ),
        (Station("learners' messages", carried_s, gpus),),
    ]
