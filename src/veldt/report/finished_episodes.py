"""The finished training episodes of a run as curves: returns and lengths over agent steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from veldt.runs.episodes import WINDOW, read_episodes

_LARGEST = 1e100  # no environment's return is larger, and sums of larger ones may overflow


@dataclass(frozen=True)
class EpisodeHistory:
    """float64 [episodes] each, in the order of their ends: agent steps of the run at the end, return, agent steps.

    Of the episodes that count for the run's mean return: not those of envs that explore much, where others play for it.
    """

    step: np.ndarray
    score: np.ndarray
    length: np.ndarray

    @classmethod
    def load(cls, directory: Path) -> EpisodeHistory:
        """Reads the episode log of the run in `directory`; a run without one has no episodes.

        Skips episodes whose return is not finite or absurdly large, and lines that veldt did not write as they are.
        Raises UsageError if the log cannot be read.
        """
        rows = [(one.step, one.score, one.length) for one in read_episodes(directory) if one.counts]
        table = np.array(rows, np.float64).reshape(-1, 3)
        table = table[(np.abs(table) < _LARGEST).all(axis=1)]
        table = table[np.argsort(table[:, 0], kind="stable")]
        return cls(*table.T)

    def first_reached(self, score: float) -> float | None:
        """The agent steps at which the mean return of the last 100 episodes was first at least `score`; None: never.

        As with `--until`, 100 episodes must have finished.
        """
        return first_reached(self.step, self.score, score)


def first_reached(step: np.ndarray, returns: np.ndarray, score: float) -> float | None:
    """As `EpisodeHistory.first_reached`, of episodes in the order of their ends: float64 [episodes] each."""
    means = mean_of_last(returns)[WINDOW - 1 :]
    # The means are differences of sums: their last digits are not those of the sum of 100 returns.
    reached = np.flatnonzero(means >= score - 1e-9 * abs(score))
    return float(step[WINDOW - 1 + reached[0]]) if len(reached) else None


def first_highest(step: np.ndarray, returns: np.ndarray) -> float | None:
    """Returns the agent steps at which the mean of the last 100 returns was first highest; None with fewer episodes.

    Args:
        step, returns: as for `first_reached`.
    """
    means = mean_of_last(returns)[WINDOW - 1 :]
    return float(step[WINDOW - 1 + int(means.argmax())]) if len(means) else None


def mean_of_last(values: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """For each of `values` the mean of the last `window` until then, of all while there are fewer: float64 [values]."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))
