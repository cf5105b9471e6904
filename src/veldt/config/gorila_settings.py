"""Settings of Gorila: the number of processes of each kind, and how far they may diverge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from veldt.config.system_settings import ApexConfig, check_even
from veldt.errors import UsageError
from veldt.setting_metadata import Unit
from veldt.setting_text import flag

_OF_ACTORS = ("shards", "actor_chunk", "batches_ahead", "rate_limit_tolerance")


@dataclass(frozen=True, kw_only=True)
class GorilaConfig(ApexConfig):
    """The processes of Gorila, and the edges between them."""

    learners: Annotated[int, Unit("processes")] = 8
    """Learner processes, each with batches of its own, that send their gradients to the parameter server."""
    actors: Annotated[int, Unit("processes")] = 0
    """Actor processes, each with its share of the envs, that fill a replay buffer from which all learners sample; 0:
    every learner acts itself, and has a replay buffer of its own (bundles)."""
    parameter_shards: Annotated[int, Unit("processes")] = 1
    """Processes that the parameters and the update rule's state are divided among."""
    actor_sync_interval: Annotated[int, Unit("steps")] = 100
    """Steps of an actor or bundle between two checks for newer parameters."""
    learner_sync_interval: Annotated[int, Unit("updates")] = 1
    """Gradients that a learner sends to the parameter server before it pulls the newest parameters."""
    publish_every: Annotated[int, Unit("updates")] = 1
    """Updates of a parameter shard between two versions that it publishes."""
    max_staleness: Annotated[int, Unit("updates")] = 0
    """A gradient is discarded if it was computed with parameters more than this many updates old; 0: none is."""
    outlier_deviations: Annotated[float, Unit("σ")] = 0.0
    """A gradient is discarded if its absolute loss is more than this many standard deviations above the mean of its
    learner's losses; 0: none is."""
    anneal_by: Literal["updates", "steps"] = "updates"
    """The clock of exploration: all learners' updates, each counted as batch / training_intensity steps, or steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("parameter_shards", "learner_sync_interval"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        for name in ("max_staleness", "outlier_deviations"):
            if getattr(self, name) < 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name):g}: it must be 0 (no limit) or more")

    def only_with_replay(self) -> dict[str, str]:
        return {"actors": "that actors fill: take --actors 0, so that each learner acts itself"}

    def unread(self) -> dict[str, str]:
        why = "--actors is 0, so that each learner acts, and keeps what it has seen, itself"
        return {} if self.actors else dict.fromkeys(_OF_ACTORS, why)

    @property
    def observation_statistics_refusal(self) -> str:
        return "its learners share parameters only, by the parameter server"

    @property
    def in_phases(self) -> bool:
        return not self.actors

    @property
    def is_synchronised(self) -> bool:
        return False

    @property
    def owns_envs(self) -> bool:
        return not self.actors

    def check_envs(self, envs: int) -> None:
        if self.actors:
            super().check_envs(envs)
        else:
            check_even(envs, self.learners, "learners", "learner")
