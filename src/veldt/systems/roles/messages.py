"""What roles send to the driver: episodes, metrics, evaluations, and their parts of snapshots."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from veldt.envs.seeding import episode_seed
from veldt.exchange.graph import Groups
from veldt.runtime.role_messages import RoleMessage
from veldt.sampling.episodes import Episode


@dataclass(frozen=True)
class FinishedEpisodes(RoleMessage, kind="episodes"):
    """Episodes in the order of their ends, with env indices of the run, and the seed that each one's reset got."""

    episodes: Sequence[Episode]
    seeds: Sequence[int]

    @classmethod
    def of_role(cls, episodes: Sequence[Episode], run_seed: int, first: int) -> Self:
        """Returns the message of a role whose envs start at index `first` of the run, seeded from `run_seed`."""
        seeds = [episode_seed(run_seed, one.env_index, one.episode) for one in episodes]
        return cls([dataclasses.replace(one, env_index=first + one.env_index) for one in episodes], seeds)

    def to_values(self) -> dict[str, Any]:
        """Returns one array of all actions, since most episodes are short."""
        known = [
            [one.env_index, one.episode, one.prefix, one.episode_return, one.length] for one in self.episodes
        ]
        values: dict[str, Any] = {"episodes": known, "seeds": list(self.seeds)}
        if known:
            values["actions"] = np.concatenate([one.actions for one in self.episodes])
        return values

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        given = dict(values)
        actions, episodes, end = given.pop("actions", None), [], 0
        for env_index, episode, prefix, episode_return, length in given.get("episodes", []):
            begin, end = end, end + length
            episodes.append(Episode(env_index, episode, prefix, episode_return, actions[begin:end]))
        return super().from_values(given | ({"episodes": episodes} if "episodes" in given else {}))


@dataclass(frozen=True)
class ActorMetrics(RoleMessage, kind="actor-metrics"):
    """Counts of a role that acts, since its incarnation `restart_count` began, and seconds by stage if it has them."""

    restart_count: int
    reset_steps: int
    env_restarts: int
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LearnerMetrics(RoleMessage, kind="learner-metrics"):
    """Metrics of a learner's updates since it last sent them.

    Args:
        count: number of these updates.
        sums: sums over them, by metric.
        lag_sum: the sum of each update's mean policy lag; `lag_min` and `lag_max` are over all rows, None without any.
        learning_rate: of the last phase or update.
        updates: of the parameters, by all learners, so far.
        seconds: of this incarnation, by stage.
        source: metrics of where batches come from, and of the exchange with other learners.
    """

    count: int
    sums: Mapping[str, float]
    lag_sum: float
    lag_min: float | None
    lag_max: float | None
    learning_rate: float
    updates: int
    seconds: Mapping[str, float]
    source: Mapping[str, float]


@dataclass(frozen=True)
class FinishedEvaluation(RoleMessage, kind="evaluation"):
    """Raw returns and lengths of the episodes of an evaluation that was due at env step `step`."""

    step: int
    scores: Sequence[float]
    lengths: Sequence[int]


@dataclass(frozen=True)
class SnapshotPart(RoleMessage, kind="snapshot-part"):
    """A role's part of snapshot `number`.

    Args:
        groups: arrays by group of the checkpoint, and by name.
        rank: of a learner.
        updates: of a learner: updates of its own at the moment of the snapshot.
        steps: of a learner that acts: env steps of its own at that moment.
        state: of a learner: further state, as JSON values.
        replay: the part of the replay buffer whose rows are still being written; `WrittenSegments` follows.
    """

    number: int
    groups: Groups
    rank: int | None = None
    updates: int | None = None
    steps: int | None = None
    state: Mapping[str, Any] | None = None
    replay: str | None = None


@dataclass(frozen=True)
class WrittenSegments(RoleMessage, kind="segments"):
    """The rows of part `replay` of the replay buffer in snapshot `number` are on disk: the records of all segments."""

    number: int
    replay: str
    segments: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class CurrentWeights(RoleMessage, kind="weights"):
    """A learner's weights between two phases, fp32 by name."""

    weights: Mapping[str, np.ndarray]
