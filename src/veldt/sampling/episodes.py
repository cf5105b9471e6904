"""Episodes: their raw returns, their lengths, and the actions that replay them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veldt.envs.action_replay import ActionPrefix
from veldt.envs.trajectory import Rows
from veldt.runs.episodes import WINDOW


@dataclass(frozen=True)
class Episode:
    """A finished episode: raw return (in Atari of the whole game, not of a life), and stored actions [length, ...].

    It is number `episode` of its env. The first `prefix` of its actions were random start steps.
    """

    env_index: int
    episode: int
    prefix: int
    episode_return: float
    actions: np.ndarray

    @property
    def length(self) -> int:
        return len(self.actions)


class ReturnTracker:
    """Counts episodes and keeps the returns of the last 100."""

    def __init__(self) -> None:
        self.num_episodes = 0
        self.recent: deque[float] = deque(maxlen=WINDOW)

    def record(self, episodes: Sequence[Episode]) -> None:
        """Adds finished episodes, in the order of their ends."""
        self.num_episodes += len(episodes)
        self.recent.extend(episode.episode_return for episode in episodes)

    @property
    def mean_return(self) -> float | None:
        """Mean raw return of the last 100 episodes (or of all, while there are fewer); None before the first."""
        return float(np.mean(self.recent)) if self.recent else None

    @property
    def is_full(self) -> bool:
        """Whether 100 episodes have finished."""
        return len(self.recent) == WINDOW

    def reached(self, score: float) -> bool:
        """Whether 100 episodes have finished and the mean of the last 100 returns is at least `score`."""
        return self.is_full and float(np.mean(self.recent)) >= score


class EpisodeTracker:
    """Follows the running episode of each env through the rows of trajectories.

    `prefixes` are the actions before the first row (start-state decorrelation): they count in their episodes and
    returns.
    """

    def __init__(self, width: int, prefixes: Mapping[int, ActionPrefix]) -> None:
        self._score = np.zeros(width)
        self._actions: list[list[np.ndarray]] = [[] for _ in range(width)]
        self._prefix = [0] * width
        self.set_prefixes(prefixes)

    def set_prefixes(self, prefixes: Mapping[int, ActionPrefix]) -> None:
        """Sets the actions that were played before the first row."""
        for b, prefix in prefixes.items():
            self._actions[b], self._prefix[b] = [prefix.actions], len(prefix.actions)
            self._score[b] = prefix.score

    def add(self, slot: Rows) -> list[Episode]:
        """Adds a full trajectory. Returns the episodes finished in it, in the order of their steps."""
        finished: list[tuple[int, Episode]] = []
        done_TB = (slot.terminated | slot.truncated) & slot.valid
        # Includes the last row: an episode that begins there must not include the reset step before it.
        begins_SB = slot.episode_step == 0
        eventful_B = done_TB.any(0) | begins_SB.any(0) | slot.is_last[slot.steps]
        for b in range(slot.width):
            if not eventful_B[b]:
                self._extend(slot, b, 0, slot.steps)
                continue
            begin = 0
            events = sorted(
                {*np.flatnonzero(begins_SB[:, b]).tolist(), *(np.flatnonzero(done_TB[:, b]) + 1).tolist()}
            )
            for t in events:
                if t > 0 and done_TB[t - 1, b]:
                    self._extend(slot, b, begin, t)
                    finished.append((t, self._finish(b, int(slot.episode[t - 1, b]))))
                    begin = t
                if begins_SB[t, b]:
                    # After a decorrelated start the first row has a step above 0, so the prefix is not dropped here.
                    self._clear(b)
                    begin = t
            if not slot.is_last[slot.steps, b]:
                self._extend(slot, b, begin, slot.steps)
        return [episode for _, episode in sorted(finished, key=lambda item: (item[0], item[1].env_index))]

    def actions(self, b: int) -> np.ndarray | None:
        """Returns the running episode's actions up to the end of the last trajectory."""
        return np.concatenate(self._actions[b]) if self._actions[b] else None

    def actions_until(self, slot: Rows, b: int, t: int) -> np.ndarray | None:
        """Returns the actions before row `t`, of that row's episode, in a trajectory buffer not yet added."""
        episode_step = int(slot.episode_step[t, b])
        inside = slot.action[max(0, t - episode_step) : t, b]
        if episode_step <= t:
            return inside.copy()
        before = self.actions(b)
        return None if before is None else np.concatenate([before, inside])

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns what a checkpoint stores: arrays and plain values."""
        arrays = {f"actions/{b}": np.concatenate(parts) for b, parts in enumerate(self._actions) if parts}
        arrays["score"] = self._score.copy()
        return arrays, {"prefix": list(self._prefix)}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        """Continues from what `state` has returned. ValueError if that is of another number of envs."""
        prefix = [int(length) for length in values["prefix"]]
        if len(prefix) != len(self._actions):
            raise ValueError(f"it has {len(prefix)} envs, and this run {len(self._actions)}")
        self._score[:], self._prefix = arrays["score"], prefix
        for b in range(len(self._actions)):
            self._actions[b] = [arrays[f"actions/{b}"]] if f"actions/{b}" in arrays else []

    def _extend(self, slot: Rows, b: int, begin: int, end: int) -> None:
        if end > begin:
            self._score[b] += float(slot.reward[begin:end, b].sum(dtype=np.float64))
            self._actions[b].append(slot.action[begin:end, b].copy())

    def _finish(self, b: int, episode: int) -> Episode:
        finished = Episode(
            b, episode, self._prefix[b], float(self._score[b]), np.concatenate(self._actions[b])
        )
        self._clear(b)
        return finished

    def _clear(self, b: int) -> None:
        self._score[b], self._actions[b], self._prefix[b] = 0.0, [], 0
