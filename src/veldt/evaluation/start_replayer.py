"""Replays recorded actions from the reset to a start, in place of the policy's; rewards on the way do not count."""

from __future__ import annotations

import numpy as np

from veldt.envs.in_process import VectorEnvs
from veldt.envs.settings import AtariConfig
from veldt.envs.trajectory import Trajectory
from veldt.errors import UsageError
from veldt.evaluation.starts import Start, Starts, digest_of
from veldt.sampling.episodes import Episode


class StartReplayer:
    """Leads the first episodes of `width` envs to `starts`, which are assigned to the envs in turn.

    The recorded actions pass through the rows of a trajectory buffer like any other steps. So the frames, episode steps
    and recurrent states at the start are those of the recorded episode.
    """

    def __init__(self, starts: Starts, width: int) -> None:
        self._starts, self._width = starts, width
        self._env_starts = [starts.each[b::width] for b in range(width)]
        # One more column, for episodes without a start.
        self._length_BE = np.full((width, len(self._env_starts[0]) + 1), -1)
        for b, env_starts in enumerate(self._env_starts):
            self._length_BE[b, : len(env_starts)] = [len(start.actions) for start in env_starts]
        self._score_B = np.zeros(width)

    @property
    def seeds(self) -> tuple[tuple[int, ...], ...]:
        """Seeds of the first episodes of each env."""
        return tuple(tuple(start.seed for start in env_starts) for env_starts in self._env_starts)

    def emulator(self, atari: AtariConfig) -> AtariConfig:
        """See `Starts.emulator`."""
        return self._starts.emulator(atari)

    def start_of(self, episode: Episode) -> Start | None:
        """The start that an episode was led to; None if there was none."""
        env_starts = self._env_starts[episode.env_index]
        return env_starts[episode.episode] if episode.episode < len(env_starts) else None

    def check(self, envs: VectorEnvs, t: int) -> None:
        """Compares envs that reach a start at row `t` with the recording. Raises UsageError if one differs."""
        slot = envs.trajectory
        at_start = np.flatnonzero((slot.episode_step[t] == self._lengths(slot, t)) & ~slot.is_last[t])
        if not len(at_start):
            return
        states = envs.save()
        for b in at_start.tolist():
            observation = [row[b] for row in slot.rows(t, slice(0, self._width))]
            digest = digest_of(states.get(b), observation, float(self._score_B[b]))
            self._score_B[b] = 0.0  # for the next episode
            episode = int(slot.episode[t, b])
            if digest != self._env_starts[b][episode].digest:
                raise UsageError(
                    self._message(b, episode, "leads to other observations than when it was recorded")
                )

    def override_actions(self, slot: Trajectory, t: int, part: slice) -> None:
        """Writes recorded actions into row `t`, envs `part`, where the start is not yet reached."""
        before_B = slot.episode_step[t] < self._lengths(slot, t)
        for b in np.flatnonzero(before_B[part]) + part.start:
            slot.action[t, b] = self._env_starts[b][slot.episode[t, b]].actions[slot.episode_step[t, b]]

    def subtract_rewards(self, slot: Trajectory, t: int) -> None:
        """Removes the rewards of step `t` before a start. Raises UsageError if the episode ended there."""
        before_B = (slot.episode_step[t] < self._lengths(slot, t)) & slot.valid[t]
        over_B = before_B & (slot.terminated[t] | slot.truncated[t])
        if over_B.any():
            b = int(np.argmax(over_B))
            raise UsageError(
                self._message(b, int(slot.episode[t, b]), "is of an episode that ends before it")
            )
        self._score_B[before_B] += slot.reward[t, before_B]
        slot.reward[t, before_B] = 0.0

    def _lengths(self, slot: Trajectory, t: int) -> np.ndarray:
        """Number of recorded actions of each env's episode in row `t`; -1 without a start."""
        episode_B = np.minimum(slot.episode[t], self._length_BE.shape[1] - 1)
        return np.asarray(self._length_BE[np.arange(self._width), episode_B])

    def _message(self, b: int, episode: int, what: str) -> str:
        index = b + episode * self._width
        wrote = ", ".join(f"{name} {version}" for name, version in self._starts.versions.items())
        return (
            f"--starts {self._starts.path}: start {index} {what} ({wrote}), so {self._starts.env} is not deterministic "
            "or has changed: record new starts here"
        )
