"""Records finished episodes, and decides which of them count for the run's scores."""

from __future__ import annotations

from collections.abc import Collection

from veldt.config.train_config import TrainConfig
from veldt.sampling.episodes import ReturnTracker
from veldt.systems.driver.monitor import Monitor
from veldt.systems.roles.messages import FinishedEpisodes


class EpisodeRecorder:
    """Writes all episodes to the monitor's log, and the returns of those that count to `scores`.

    If the run has an evaluator, its episodes count and no others; its envs are numbered after the run's own.

    Args:
        scored_envs: envs of the run whose episodes count where no evaluator plays.
    """

    def __init__(
        self, config: TrainConfig, scored_envs: Collection[int], scores: ReturnTracker, monitor: Monitor
    ) -> None:
        self._num_envs = config.envs.num_envs
        self._scored_envs = () if config.roles.part_for_evaluator > 0 else scored_envs
        self._scores, self._monitor = scores, monitor

    def record(self, message: FinishedEpisodes) -> None:
        counted = []
        for episode, seed in zip(message.episodes, message.seeds, strict=True):
            counts = episode.env_index >= self._num_envs or episode.env_index in self._scored_envs
            self._monitor.record_episode(episode, seed, counts)
            if counts:
                counted.append(episode)
        self._scores.record(counted)
