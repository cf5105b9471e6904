"""The replay buffer: storage, index and return, put together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veldt.envs.spec import EnvSpec
from veldt.envs.trajectory import Rows
from veldt.errors import UsageError
from veldt.replay.keys import keys_of, positions_of
from veldt.replay.n_step import NStep
from veldt.replay.observations import TransitionObservations
from veldt.replay.returns import n_step_returns
from veldt.replay.ring import Change, Ring
from veldt.replay.sampling_strategy import Prioritised, SamplingStrategy, Uniform, check_priorities
from veldt.replay.settings import ReplayConfig
from veldt.replay.size import transitions_each


@dataclass(frozen=True)
class ReplaySample:
    """N transitions. Stacks of frames are valid until the next sample but one is drawn: their memory is used again.

    `observation` and `next_observation` hold arrays by field (a single "" unless the space is a Dict), [N, ...], or
    [N, K, H, W] in channels-last memory where frames are stacked. The target is reward_N + discount_N V(next); see
    `returns.n_step_returns`. `mass_N` float64 are in proportion to the rows' chances (see `index.importance_weights`),
    `version_N` int32 the policy versions that acted, and `key_N` int64 names the transitions for `ReplayBuffer.update`.
    """

    observation: dict[str, np.ndarray]
    next_observation: dict[str, np.ndarray]
    action_N: np.ndarray
    reward_N: np.ndarray
    discount_N: np.ndarray
    mass_N: np.ndarray
    key_N: np.ndarray
    version_N: np.ndarray


class ReplayBuffer:
    """What envs have lived through of late, to be sampled; `len` is how many transitions that is just now.

    `dropped` counts priorities that came too late: their transitions had left the memory. `priority` float64 [B R] are
    raw priorities that came with the rows (NaN: none), once any have.

    Args:
        width: envs, B.
        returns: how returns are made.
        threads: for the making of stacks.
    """

    def __init__(
        self, spec: EnvSpec, width: int, config: ReplayConfig, returns: NStep, threads: int = 1
    ) -> None:
        share = transitions_each(spec, width, config, returns)
        self._returns = returns
        self.ring = Ring(spec, width, share, returns.steps, config.compress_frames, threads)
        self._observations = TransitionObservations(self.ring, spec)
        self.index: SamplingStrategy = (
            Prioritised(self.ring, config.priority_exponent)
            if config.replay == "prioritised"
            else Uniform(self.ring)
        )
        self.dropped = 0
        self.priority: np.ndarray | None = None

    def __len__(self) -> int:
        return self.ring.sampleable

    @property
    def capacity(self) -> int:
        """The most transitions there can be: `buffer_size`, rounded up to as many for each env."""
        return self.ring.width * self.ring.share

    def append(self, slot: Rows, priority_TB: np.ndarray | None = None, first: int = 0) -> None:
        """Takes a full slot of envs `first` and on, the one that follows what was appended of them before.

        Args:
            priority_TB: raw priorities of the slot's steps (of those that are not valid they may be anything); without
                them, transitions get the largest priority so far. VeldtError where one cannot be a priority.
        """
        change = self.ring.append(slot, first)
        priority_M = None
        if priority_TB is not None or self.priority is not None:
            priority_M = self._priorities(change, priority_TB)
        self.index.written(change.removed_M, change.added_M, priority_M)

    def sample(self, count: int, seed: int) -> ReplaySample:
        """Draws `count` transitions with replacement, a function of `seed` (64 bits) and of what is in the memory."""
        if count > len(self):
            raise UsageError(
                f"{count} transitions cannot be sampled from the {len(self)} that the replay buffer holds: wait for "
                "more, or ask for fewer"
            )
        return self.draw(count, seed)

    def draw(self, count: int, seed: int) -> ReplaySample:
        """`sample` for one of several shards, of which no one has to hold as many as are drawn."""
        ring, returns = self.ring, self._returns
        position_N, mass_N = self.index.sample(count, seed)
        reward_N, discount_N, bootstrap_N = n_step_returns(
            ring.reward.reshape(-1),
            ring.terminated.reshape(-1),
            ring.life_lost.reshape(-1),
            ring.valid.reshape(-1),
            ring.rows,
            returns.steps,
            returns.gamma,
            returns.clip_rewards,
            returns.terminal_on_life_loss,
            position_N,
        )
        observation, next_observation = self._observations.take(position_N, bootstrap_N)
        return ReplaySample(
            observation=observation,
            next_observation=next_observation,
            action_N=ring.action.reshape(-1, *ring.action.shape[2:])[position_N],
            reward_N=reward_N,
            discount_N=discount_N,
            mass_N=mass_N,
            key_N=keys_of(position_N, ring.first, ring.rows),
            version_N=ring.version.reshape(-1)[position_N],
        )

    def update(self, key_N: np.ndarray, priority_N: np.ndarray) -> None:
        """New raw priorities of transitions that were sampled; those that are gone are dropped, and counted."""
        position_N, is_there_N = positions_of(key_N, self.ring.first, self.ring.end, self.ring.rows)
        self.dropped += len(key_N) - int(is_there_N.sum())
        self.index.update(position_N[is_there_N], np.asarray(priority_N)[is_there_N])

    def _priorities(self, change: Change, priority_TB: np.ndarray | None) -> np.ndarray:
        """Priorities of the rows that have become sampleable, kept since they came; NaN where none was given."""
        if self.priority is None:
            self.priority = np.full(self.ring.valid.size, np.nan)
        if priority_TB is None:
            self.priority[change.step_M] = np.nan
        else:
            given_M = priority_TB.reshape(-1)[change.slot_M]
            check_priorities(given_M)
            self.priority[change.step_M] = given_M
        return self.priority[change.added_M]
