"""Whole games: their scores, their lengths, and the actions that replay them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veldt.envs.action_replay import ActionPrefix
from veldt.envs.trajectory import Rows

_WINDOW = 100  # games over which a mean return is given


@dataclass(frozen=True)
class Episode:
    """A finished episode: raw score over the whole game, and actions [length, ...] as stored."""

    env_index: int
    episode: int
    prefix: int
    episode_return: float
    actions: np.ndarray

    @property
    def length(self) -> int:
        return len(self.actions)


class ReturnTracker:
    """How many games there were, and the scores of the last 100."""

    def __init__(self) -> None:
        self.num_episodes = 0
        self.recent: deque[float] = deque(maxlen=_WINDOW)

    def record(self, games: Sequence[Episode]) -> None:
        """Takes finished games, in the order of their ends."""
        self.num_episodes += len(games)
        self.recent.extend(game.episode_return for game in games)

    @property
    def mean_return(self) -> float | None:
        """Mean raw score of the last 100 games (of fewer while there are fewer); None before the first."""
        return float(np.mean(self.recent)) if self.recent else None

    @property
    def is_full(self) -> bool:
        """Whether 100 games have been finished."""
        return len(self.recent) == _WINDOW

    def reached(self, score: float) -> bool:
        """Whether 100 games have been finished and the last 100 have this mean."""
        return self.is_full and float(np.mean(self.recent)) >= score


class EpisodeTracker(ReturnTracker):
    """Follows every env's present episode through the rows of trajectories.

    `prefixes` are what was played before the first row (start-state decorrelation): part of those games, and of their
    scores.
    """

    def __init__(self, width: int, prefixes: Mapping[int, ActionPrefix]) -> None:
        super().__init__()
        self._score = np.zeros(width)
        self._actions: list[list[np.ndarray]] = [[] for _ in range(width)]
        self._prefix = [0] * width
        self.begins(prefixes)

    def begins(self, prefixes: Mapping[int, ActionPrefix]) -> None:
        """Takes what was played before the first row."""
        for b, prefix in prefixes.items():
            self._actions[b], self._prefix[b] = [prefix.actions], len(prefix.actions)
            self._score[b] = prefix.score

    def add(self, slot: Rows) -> list[Episode]:
        """Takes a full trajectory; returns the games finished in it, in the order of their steps."""
        finished: list[tuple[int, Episode]] = []
        done_TB = (slot.terminated | slot.truncated) & slot.valid
        # The last row too: a game that begins there must not inherit the reset step that reset it.
        begins_SB = slot.age == 0
        eventful_B = done_TB.any(0) | begins_SB.any(0) | slot.ended[slot.steps]
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
                    # After a decorrelated start the first row is not the first of its episode: nothing to forget.
                    self._forget(b)
                    begin = t
            if not slot.ended[slot.steps, b]:
                self._extend(slot, b, begin, slot.steps)
        games = [game for _, game in sorted(finished, key=lambda item: (item[0], item[1].env_index))]
        self.record(games)
        return games

    def actions(self, b: int) -> np.ndarray | None:
        """Actions of the present episode up to the end of the last trajectory."""
        return np.concatenate(self._actions[b]) if self._actions[b] else None

    def actions_until(self, slot: Rows, b: int, t: int) -> np.ndarray | None:
        """Actions of the episode to which row `t` of a slot not yet added belongs."""
        age = int(slot.age[t, b])
        inside = slot.action[max(0, t - age) : t, b]
        if age <= t:
            return inside.copy()
        before = self.actions(b)
        return None if before is None else np.concatenate([before, inside])

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """What a checkpoint keeps: arrays and plain values."""
        arrays = {f"actions/{b}": np.concatenate(parts) for b, parts in enumerate(self._actions) if parts}
        arrays["score"], arrays["recent"] = self._score.copy(), np.array(self.recent, np.float64)
        return arrays, {"games": self.games, "prefix": list(self._prefix)}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        self._score[:] = arrays["score"]
        self.recent.extend(arrays["recent"].tolist())
        self.games, self._prefix = values["games"], list(values["prefix"])
        for b in range(len(self._actions)):
            self._actions[b] = [arrays[f"actions/{b}"]] if f"actions/{b}" in arrays else []

    def _extend(self, slot: Rows, b: int, begin: int, end: int) -> None:
        if end > begin:
            self._score[b] += float(slot.reward[begin:end, b].sum(dtype=np.float64))
            self._actions[b].append(slot.action[begin:end, b].copy())

    def _finish(self, b: int, episode: int) -> Episode:
        game = Episode(b, episode, self._prefix[b], float(self._score[b]), np.concatenate(self._actions[b]))
        self._forget(b)
        return game

    def _forget(self, b: int) -> None:
        self._score[b], self._actions[b], self._prefix[b] = 0.0, [], 0
