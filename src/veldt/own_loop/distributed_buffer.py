"""The distributed buffer: transitions or whole episodes in shards, each a process, uniform or prioritised.

    actors ==rows, priorities==> shard 0 --+
    actors ==rows, priorities==> shard 1 --+==> batches ==> learners
                                   ^                          |
                                   +------- priorities -------+

A learner's batch has rows of all shards, each drawn in proportion to its share of the whole sampling weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veldt.errors import UsageError
from veldt.exchange.graph import Edge, ReplaySpec, Role, SlotsSpec, Wiring
from veldt.exchange.rate_limiter import RateLimiterSpec, least_slack
from veldt.own_loop.buffer_ends import COUNT, BufferAdder, BufferSampler
from veldt.own_loop.buffer_shard import BufferShardPlan, run_buffer_shard
from veldt.own_loop.piece import HUNG_S, STARTUP_TIMEOUT_S, Parts, Users
from veldt.own_loop.role_process import RoleProcess
from veldt.own_loop.row_format import PRIORITY, RowFormat
from veldt.replay.row_buffer import row_batch_layouts
from veldt.runtime.shared import Layout

_DEPTH = 3  # slots of each process that adds: one is being written, one is being stored, and one is ready
_AHEAD = 2  # batches requested ahead of each process that samples
_TRANSITIONS_AT_ONCE = 16


@dataclass(frozen=True)
class DistributedBuffer:
    """A replay buffer in processes of its own: some roles add rows, others sample batches of them (Ape-X, IMPALA).

    A row is a transition, or with `episode_steps` a whole episode. The functions of the role `source` get an object
    with `add(**row)` and `flush()` (see `BufferAdder`), those of `target` one with `sample()`, `update(priorities)` and
    `len` (see `BufferSampler`).

    Args:
        row: shape and dtype of each array of a transition, such as `{"observation": ((4,), "float32"), "action": ((),
            "int64")}`.
        source: the role that adds.
        target: the role that samples.
        capacity: maximum number of rows, over all shards; new ones replace the oldest.
        batch_size: rows of a batch.
        episode_steps: makes a row an episode of at most so many steps: each array gets the steps as first axis.
        alpha: exponent of prioritised sampling; 0 samples uniformly.
        training_intensity: how often each row is to be sampled on average: the side that is ahead waits for the other.
            0 leaves both free.
        learning_starts: rows before the first batch; 0: `batch_size`.
        shards: processes that the rows are distributed over, at most one for each process that adds.
        seed: of what is drawn.
        deadline_s: seconds that `add` and `sample` wait for the other side.

    Raises:
        UsageError: a value is not allowed.

    Source: Horgan et al. 2018, section 3; Schaul et al. 2016, section 3.3.
    """

    row: Mapping[str, tuple[tuple[int, ...], str]]
    source: str
    target: str
    capacity: int
    batch_size: int
    episode_steps: int = 0
    alpha: float = 0.0
    training_intensity: float = 0.0
    learning_starts: int = 0
    shards: int = 1
    seed: int = 0
    deadline_s: float = 300.0

    def __post_init__(self) -> None:
        for name, least in {"capacity": 1, "batch_size": 1, "shards": 1, "episode_steps": 0}.items():
            if getattr(self, name) < least:
                raise UsageError(
                    f"{name} of a DistributedBuffer is {getattr(self, name)}: it must be at least {least}"
                )
        if not 0 <= self.alpha <= 1:
            raise UsageError(f"alpha of a DistributedBuffer is {self.alpha}: it must be in [0, 1]")
        if self.training_intensity < 0:
            raise UsageError(
                f"training_intensity of a DistributedBuffer is {self.training_intensity}: it must be 0 or more"
            )
        if self.source == self.target:
            raise UsageError(
                f"source and target of a DistributedBuffer are both '{self.source}': a process that adds and samples "
                "alone needs no other process, so keep its rows in a list of its own"
            )
        if self.share < self.rows_at_once or self.starts > self.capacity:
            raise UsageError(
                f"capacity of a DistributedBuffer is {self.capacity}, with {self.shards} shards and {self.starts} rows "
                f"before the first batch: take at least {max(self.starts, self.shards * self.rows_at_once)}"
            )
        self.format()

    @property
    def share(self) -> int:
        """Rows of each shard."""
        return self.capacity // self.shards

    @property
    def starts(self) -> int:
        """Rows before the first batch."""
        return self.learning_starts or self.batch_size

    @property
    def rows_at_once(self) -> int:
        """Rows that travel together."""
        return 1 if self.episode_steps else min(_TRANSITIONS_AT_ONCE, max(1, self.starts // 4))

    def format(self) -> RowFormat:
        """Returns the arrays of a row. Raises UsageError for one that cannot be."""
        return RowFormat.of(self.row, self.episode_steps)

    def parts(self, users: Users) -> Parts:
        """See `Piece`."""
        name, adding, sampling = (
            users.name,
            users.count(self.source, "source"),
            users.count(self.target, "target"),
        )
        if self.shards > adding:
            raise UsageError(
                f"the buffer '{name}' has {self.shards} shards, and {adding} processes of '{self.source}' add to it: "
                "take at most one shard for each"
            )
        shard_role, layouts = f"{name} shard", self.format().layouts
        chunk = {at: Layout((self.rows_at_once, *one.shape), one.dtype) for at, one in layouts.items()}
        chunk |= {PRIORITY: Layout((self.rows_at_once,), "float64"), COUNT: Layout((1,), "int64")}
        edges = {}
        for shard in range(self.shards):
            members = len(range(shard, adding, self.shards))
            carries = f"{self.rows_at_once} rows with priorities, {_DEPTH} for each process, full ones block"
            edges[f"{name} rows {shard}"] = Edge(
                self.source, shard_role, carries, SlotsSpec(chunk, members, _DEPTH)
            )
        fed_by = tuple(edges)
        for index in range(sampling):
            carries = f"batches of {self.batch_size:,}, {_AHEAD} ahead; new priorities back"
            batch = row_batch_layouts(layouts, self.batch_size)
            spec = ReplaySpec(batch, self.batch_size, _AHEAD, fed_by)
            edges[f"{name} batches {index}"] = Edge(shard_role, self.target, carries, spec)
        edges[f"{name} rate"] = Edge(
            self.target, self.source, "counts of rows and samples", self._rate(adding, sampling)
        )
        role = Role(
            shard_role,
            f"stores {self.share:,} rows, draws, renews priorities",
            run_buffer_shard,
            [
                BufferShardPlan(name, layouts, self.share, self.alpha, shard, self.shards)
                for shard in range(self.shards)
            ],
            [
                {
                    "rows": f"{name} rows {shard}",
                    "batches": tuple(f"{name} batches {index}" for index in range(sampling)),
                }
                for shard in range(self.shards)
            ],
            max_restarts=0,
            deadline_s=HUNG_S,
            startup_timeout_s=STARTUP_TIMEOUT_S,
        )
        return Parts((role,), edges)

    def wiring(self, users: Users, role: str, index: int) -> Wiring:
        """See `Piece`. Raises UsageError for a role that neither adds nor samples."""
        if role == self.source:
            return {"rows": f"{users.name} rows {index % self.shards}", "rate": f"{users.name} rate"}
        if role == self.target:
            return {"batches": f"{users.name} batches {index}", "rate": f"{users.name} rate"}
        raise UsageError(
            f"the role '{role}' takes the buffer '{users.name}', whose source is '{self.source}' and target "
            f"'{self.target}': only these two take it"
        )

    def open(
        self, users: Users, process: RoleProcess, edges: Mapping[str, Any], layouts: Mapping[str, Layout]
    ) -> BufferAdder | BufferSampler:
        """See `Piece`."""
        if process.role == self.source:
            out = edges["rows"].producer(process.index // self.shards)
            return BufferAdder(users.name, process, self.format(), out, edges["rate"], self.deadline_s)
        client = edges["batches"].client()
        return BufferSampler(
            users.name,
            process,
            self.format(),
            client,
            edges["rate"],
            self.deadline_s,
            self.seed,
            self.alpha > 0,
        )

    def _rate(self, adding: int, sampling: int) -> RateLimiterSpec:
        least = least_slack(
            intensity=self.training_intensity,
            batch_size=self.batch_size * sampling,
            steps_at_once=adding * self.rows_at_once,
            steps_kept_back=0,
        )
        return RateLimiterSpec(
            adding, sampling, self.training_intensity, self.starts, self.batch_size, 2 * least, together=False
        )
