"""Settings of systems: how many processes of each kind there are, and how far apart they may get."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Annotated

from veldt.errors import UsageError
from veldt.setting_metadata import Unit, check_values, flag


@dataclass(frozen=True, kw_only=True)
class RolesConfig:
    """What all systems have."""

    learners: Annotated[int, Unit("processes")] = 1
    """Processes that learn: each from its part of every batch, and all apply the mean of their gradients."""
    max_restarts: Annotated[int, Unit("max_restarts")] = 100
    """How often each process that dies or hangs may be started again, before the run ends; of learners that go
    together, all."""

    def __post_init__(self) -> None:
        check_values(self)
        if self.learners < 1:
            raise UsageError(f"--learners is {self.learners}: it must be at least 1")
        if self.max_restarts < 0:
            raise UsageError(f"--max-restarts is {self.max_restarts}: it must be 0 or more")

    def check_envs(self, envs: int) -> None:
        """UsageError where so many envs cannot be shared out evenly."""

    def unread(self) -> dict[str, str]:
        """Settings that these values leave without effect, and why."""
        return {}

    @property
    def in_phases(self) -> bool:
        """Whether acting and learning take turns, so that whoever acts learns, too."""
        return True

    @property
    def together(self) -> bool:
        """Whether learners make each update together, of parts of one batch, and are lost together."""
        return True

    @property
    def alone(self) -> bool:
        """Whether each learner acts in its share of the envs, and learns from what it has seen there itself."""
        return False


def check_even(envs: int, processes: int, name: str, each: str) -> None:
    """UsageError where so many envs cannot be shared out evenly among the processes that --`name` says."""
    if envs % processes:
        lower = envs // processes * processes
        fits = " or ".join(f"{number:,}" for number in (lower, lower + processes) if number)
        raise UsageError(
            f"--num-envs is {envs} and --{name} is {processes}: each {each} must get as many envs; "
            f"take {fits} envs"
        )


@dataclass(frozen=True, kw_only=True)
class UnitsConfig(RolesConfig):
    """The units of a synchronous system."""

    learners: Annotated[int, Unit("processes")] = 1
    """Units, each with its share of the envs and of every batch: all apply the mean of their gradients. With
    accelerators, each has one."""

    def check_envs(self, envs: int) -> None:
        check_even(envs, self.learners, "learners", "learner")


@dataclass(frozen=True, kw_only=True)
class AsynchronousConfig(UnitsConfig):
    """The units of an asynchronous system, and the store of what they learn."""

    learners: Annotated[int, Unit("processes")] = 8
    """Units, each with its share of the envs and batches of its own, that apply their gradients to a central
    store one after another."""
    chunks: Annotated[int, Unit("chunks")] = 3
    """Parts of the central store that different units may update at once."""
    local_steps: Annotated[int, Unit("updates")] = 1
    """Updates that a unit makes by itself before it brings them to the central store."""
    actor_sync_interval: Annotated[int, Unit("steps")] = 0
    """Steps of each of a unit's envs after which it takes the central parameters while it samples; 0: only when
    it brings an update."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("chunks", "local_steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.actor_sync_interval < 0:
            raise UsageError(
                f"--actor-sync-interval is {self.actor_sync_interval}: it must be 0 (never) or more"
            )

    @property
    def together(self) -> bool:
        return False

    @property
    def alone(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class ActorsConfig(RolesConfig):
    """The processes of a system in which acting and learning come apart, and what flows between them."""

    actors: Annotated[int, Unit("processes")] = 0
    """Processes that act, each with its share of the envs; 0 takes one for each core that may be used."""
    actor_sync_interval: Annotated[int, Unit("steps")] = 100
    """Steps that an actor makes before it looks for newer weights."""
    publish_every: Annotated[int, Unit("updates")] = 1
    """Updates between two versions of the weights that actors can have."""
    evaluator_share: Annotated[float, Unit("of a core")] = 0.0
    """A process plays games by the newest policy as in evaluation, with so much of a core's time: they are then the
    run's score. 0: no such process, and the games of the half of the envs that explores least are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("actor_sync_interval", "publish_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.actors < 0:
            raise UsageError(f"--actors is {self.actors}: it must be 0 (automatic) or more")
        if not 0 <= self.evaluator_share <= 1:
            raise UsageError(f"--evaluator-share is {self.evaluator_share}: it must be in [0, 1]")

    def check_envs(self, envs: int) -> None:
        if self.actors:
            check_even(envs, self.actors, "actors", "actor")

    @property
    def in_phases(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class ImpalaConfig(ActorsConfig):
    """The processes of IMPALA, and what flows between them."""

    unrolls: Annotated[int, Unit("unrolls")] = 0
    """Unrolls, of --horizon steps of an env each, in a batch, rounded up to whole ones of what actors hand over
    together; 0 takes one of every env."""
    replay_share: Annotated[float, Unit("of a batch")] = 0.0
    """The part of each batch that is drawn from unrolls that were learned from before."""
    replay_unrolls: Annotated[int, Unit("unrolls")] = 10_000
    """How many of these are kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unrolls < 0:
            raise UsageError(f"--unrolls is {self.unrolls}: it must be 0 (automatic) or more")
        if not 0 <= self.replay_share < 1:
            raise UsageError(f"--replay-share is {self.replay_share}: it must be in [0, 1)")

    def batch_unrolls(self, envs: int) -> int:
        """Unrolls of a batch: learners get as many each, and an actor hands over those of its envs together."""
        least = self._at_once(envs)
        return -(-(self.unrolls or envs) // least) * least

    def drawn_slots(self, envs: int) -> int:
        """Slots, which actors hand over, in a learner's batch that are drawn from those that it learned from before."""
        return round(self.replay_share * self._batch_slots(envs))

    def as_it_comes(self, envs: int) -> str:
        """The end of a sentence about a --replay-share that leaves nothing old, or nothing new."""
        unrolls, each = self.batch_unrolls(envs), self._at_once(envs)
        share, rest = self.replay_share, 1.0 - self.replay_share
        about = math.floor(0.5 / min(share, rest))  # for both to round to one
        enough = next(slots for slots in itertools.count(about) if 0 < round(share * slots) < slots)
        return f"in a batch of {unrolls} unrolls that come {each} at a time: take at least {enough * each} --unrolls"

    def _at_once(self, envs: int) -> int:
        """Unrolls that come together: an actor's, for each learner."""
        return envs // max(1, self.actors) * self.learners

    def _batch_slots(self, envs: int) -> int:
        return self.batch_unrolls(envs) // self._at_once(envs)

    def check_envs(self, envs: int) -> None:
        super().check_envs(envs)
        if not self.actors:
            return
        unrolls = self.batch_unrolls(envs)
        if self.actors < self.learners:
            raise UsageError(
                f"--learners is {self.learners}, and there are {self.actors} actors: take at least an actor for each"
            )
        if self._batch_slots(envs) - self.drawn_slots(envs) < 1:
            where = self.as_it_comes(envs)
            raise UsageError(f"--replay-share is {self.replay_share}, which leaves nothing new {where}")
        if self.replay_share and self.replay_unrolls < unrolls:
            raise UsageError(
                f"--replay-unrolls is {self.replay_unrolls:,}: it must be at least a batch, {unrolls:,}"
            )


@dataclass(frozen=True, kw_only=True)
class ApexConfig(ActorsConfig):
    """The processes of Ape-X, and what flows between them."""

    shards: Annotated[int, Unit("processes")] = 1
    """Processes that the replay buffer is shared out among, at most one for each actor."""
    actor_chunk: Annotated[int, Unit("steps")] = 50
    """Steps that an actor keeps before it hands them to its replay shard."""
    batches_ahead: Annotated[int, Unit("batches")] = 16
    """Batches that are drawn before the learner needs them."""
    rate_limit_tolerance: Annotated[float, Unit("samples")] = 0.0
    """How many samples may be due by --training-intensity before actors wait for the learner; 0 takes twice the least
    with which neither side can wait for the other for ever."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shards", "actor_chunk", "batches_ahead"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.rate_limit_tolerance < 0:
            raise UsageError(
                f"--rate-limit-tolerance is {self.rate_limit_tolerance:g}: it must be 0 (automatic) or more"
            )

    def check_envs(self, envs: int) -> None:
        super().check_envs(envs)
        most = self.actors or envs
        if self.shards > most:
            raise UsageError(
                f"--shards is {self.shards}, and there are {most} actors to feed them: take at most as many shards as "
                "actors"
            )

    def rows(self, width: int, n_step: int) -> int:
        """Steps of each of an actor's `width` envs that are handed over together: enough for one return."""
        return max(math.ceil(self.actor_chunk / width), n_step)
