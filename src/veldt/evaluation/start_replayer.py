"""The way to a start: recorded actions stand in for the policy's, and their points do not count."""

from __future__ import annotations

import numpy as np

from veldt.envs.in_process import VectorEnvs
from veldt.envs.settings import AtariConfig
from veldt.envs.trajectory import Trajectory
from veldt.errors import UsageError
from veldt.evaluation.starts import Start, Starts, digest_of
from veldt.sampling.episodes import Episode


class StartReplayer:
    """Leads the first games of `width` envs to `starts`, dealt out to them in turn.

    A prefix is played through the rows of a slot like any other steps: so frames, ages and what a policy with a memory
    has seen at the start are those of the game that led there.
    """

    def __init__(self, starts: Starts, width: int) -> None:
        self._starts, self._width = starts, width
        self._of = [starts.each[b::width] for b in range(width)]
        # One column more, for the games that have no prefix.
        self._length_BE = np.full((width, len(self._of[0]) + 1), -1)
        for b, some in enumerate(self._of):
            self._length_BE[b, : len(some)] = [len(start.actions) for start in some]
        self._score_B = np.zeros(width)

    @property
    def seeds(self) -> tuple[tuple[int, ...], ...]:
        """Of each env's first episodes."""
        return tuple(tuple(start.seed for start in some) for some in self._of)

    def emulator(self, atari: AtariConfig) -> AtariConfig:
        """See `Starts.emulator`."""
        return self._starts.emulator(atari)

    def start_of(self, game: Episode) -> Start | None:
        """Where a game was led to; None if it was led nowhere."""
        some = self._of[game.env_index]
        return some[game.episode] if game.episode < len(some) else None

    def check(self, envs: VectorEnvs, t: int) -> None:
        """Compares those places of row `t` that are starts with what was recorded; UsageError where one is another."""
        slot = envs.trajectory
        arrived = np.flatnonzero((slot.age[t] == self._lengths(slot, t)) & ~slot.ended[t])
        if not len(arrived):
            return
        states = envs.save()
        for b in arrived.tolist():
            observation = [row[b] for row in slot.rows(t, slice(0, self._width))]
            there = digest_of(states.get(b), observation, float(self._score_B[b]))
            self._score_B[b] = 0.0  # for the next game's prefix
            episode = int(slot.episode[t, b])
            if there != self._of[b][episode].digest:
                raise UsageError(
                    self._elsewhere(b, episode, "leads to another place than when it was recorded")
                )

    def override_actions(self, slot: Trajectory, t: int, part: slice) -> None:
        """Puts recorded actions into row `t`, envs `part`, where a start is not reached yet."""
        before_B = slot.age[t] < self._lengths(slot, t)
        for b in np.flatnonzero(before_B[part]) + part.start:
            slot.action[t, b] = self._of[b][slot.episode[t, b]].actions[slot.age[t, b]]

    def subtract_rewards(self, slot: Trajectory, t: int) -> None:
        """Takes the points of step `t` back where it led to a start; UsageError where it ended the game."""
        before_B = (slot.age[t] < self._lengths(slot, t)) & slot.valid[t]
        over_B = before_B & (slot.terminated[t] | slot.truncated[t])
        if over_B.any():
            b = int(np.argmax(over_B))
            raise UsageError(
                self._elsewhere(b, int(slot.episode[t, b]), "is of a game that is over before it")
            )
        self._score_B[before_B] += slot.reward[t, before_B]
        slot.reward[t, before_B] = 0.0

    def _lengths(self, slot: Trajectory, t: int) -> np.ndarray:
        """Of the prefixes of the games in row `t`; -1 where there is none."""
        episode_B = np.minimum(slot.episode[t], self._length_BE.shape[1] - 1)
        return np.asarray(self._length_BE[np.arange(self._width), episode_B])

    def _elsewhere(self, b: int, episode: int, what: str) -> str:
        index = b + episode * self._width
        wrote = ", ".join(f"{name} {version}" for name, version in self._starts.versions.items())
        return (
            f"--starts {self._starts.path}: start {index} {what} ({wrote}), so {self._starts.env} is not deterministic "
            "or has changed: record new starts here"
        )
