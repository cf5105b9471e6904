"""What roles send to the driver: episodes, metrics, evaluations, and their parts of snapshots."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from veldt.envs.seeding import episode_seed
from veldt.exchange.graph import Groups
from veldt.runtime.role_messages import RoleMessage
from veldt.sampling.episodes import Episode
from veldt.tracking.metric_names import with_prefix

if TYPE_CHECKING:
    from torch import Tensor

# The groups of a second learner's weights and of its update rules' state in a checkpoint.
SECOND_WEIGHTS, SECOND_OPTIMISER = "second-weights", "second-optimiser"
_METRICS_S = 0.5  # seconds between messages with metrics of updates


@dataclass(frozen=True)
class FinishedEpisodes(RoleMessage, kind="episodes"):
    """Episodes in the order of their ends, with env indices of the run, and the seed that each one's reset got."""

    episodes: Sequence[Episode]
    seeds: Sequence[int]

    @classmethod
    def of_role(cls, episodes: Sequence[Episode], run_seed: int, first: int) -> Self:
        """Returns the message of a role whose envs start at index `first` of the run, seeded from `run_seed`."""
        of_run = [dataclasses.replace(one, env_index=first + one.env_index) for one in episodes]
        return cls(of_run, [episode_seed(run_seed, one.env_index, one.episode) for one in of_run])

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
        counts: how many of these updates had the metric, by metric, where not all had it.
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
    counts: Mapping[str, int] = field(default_factory=dict)


class UpdateMetrics:
    """Sums metrics of a learner's updates until its next `LearnerMetrics`; only then it waits for the device."""

    def __init__(self) -> None:
        self._sent_at = time.monotonic()
        self.rate = 0.0  # the newest learning rate
        self._clear()

    def _clear(self) -> None:
        self._sums: dict[str, Tensor] = {}
        # Updates that had the metric: a group may move in every other one.
        self._counts = Counter[str]()
        self._count, self._lag_sum = 0, 0.0
        self._lag_min, self._lag_max = math.inf, -math.inf

    def add(self, metrics: Mapping[str, Tensor], lag: tuple[float, float, float], rate: float) -> None:
        """Adds the metrics of one update; `lag` is its policy lag in updates: mean, minimum and maximum over rows."""
        for name, value in metrics.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._counts.update(metrics.keys())
        self._count, self.rate = self._count + 1, rate
        mean, smallest, largest = lag
        self._lag_sum += mean
        self._lag_min, self._lag_max = min(self._lag_min, smallest), max(self._lag_max, largest)

    @property
    def has_any(self) -> bool:
        return self._count > 0

    @property
    def is_due(self) -> bool:
        return self.has_any and time.monotonic() - self._sent_at > _METRICS_S

    def take(self, updates: int, seconds: Mapping[str, float], source: Mapping[str, float]) -> LearnerMetrics:
        """Returns the message with all that was added since the last call, and begins anew."""
        metrics = LearnerMetrics(
            count=self._count,
            sums={with_prefix(name): float(value) for name, value in self._sums.items()},
            lag_sum=self._lag_sum,
            lag_min=float(self._lag_min) if self._count else None,
            lag_max=float(self._lag_max) if self._count else None,
            learning_rate=self.rate,
            updates=updates,
            seconds=dict(seconds),
            source=source,
            counts={with_prefix(name): had for name, had in self._counts.items() if had < self._count},
        )
        self._sent_at = time.monotonic()
        self._clear()
        return metrics


@dataclass(frozen=True)
class FinishedEvaluation(RoleMessage, kind="evaluation"):
    """Raw returns and lengths of the episodes of an evaluation that was due at agent step `step`."""

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
        steps: of a learner that acts: agent steps of its own at that moment.
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
    """A learner's weights between two phases, fp32 by name, and those of a second learner ({}: there is none)."""

    weights: Mapping[str, np.ndarray]
    second: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of_checkpoint(cls, groups: Groups) -> CurrentWeights:
        """Returns the weights in a checkpoint's groups."""
        return cls(groups["weights"], groups.get(SECOND_WEIGHTS, {}))
