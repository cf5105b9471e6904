"""The replay buffer: storage, sampling strategy and n-step return in one class."""

from __future__ import annotations

import numpy as np

from veldt.envs.spec import EnvSpec
from veldt.envs.trajectory import Rows
from veldt.replay.batch import ReplayBatch
from veldt.replay.checked_strategy import make_strategy
from veldt.replay.frames import read_observations
from veldt.replay.returns import n_step_returns
from veldt.replay.ring import Change, Ring
from veldt.replay.sampling_strategy import check_priorities
from veldt.replay.settings import NStep, ReplayConfig
from veldt.replay.size import transitions_each


class ReplayBuffer:
    """Stores and samples the recent transitions of several envs; `len` is the number of sampleable transitions.

    `dropped` counts priorities that arrived after their transitions were overwritten. `priority` float64 [B R] are the
    raw priorities given with the rows (NaN: none); None until any were given.

    Args:
        width: number of envs, B.
        returns: settings of the n-step return.
        threads: threads for making stacks.
    """

    def __init__(
        self, spec: EnvSpec, width: int, config: ReplayConfig, returns: NStep, threads: int = 1
    ) -> None:
        share = transitions_each(spec, width, config, returns)
        self.config, self._returns = config, returns
        self.ring = Ring(spec, width, share, returns.steps, config.compress_frames, threads)
        self._fields = spec.observation
        self.index = make_strategy(config.replay, self.ring, config.priority_exponent)
        self.dropped = 0
        self.priority: np.ndarray | None = None

    def __len__(self) -> int:
        return self.ring.sampleable

    @property
    def capacity(self) -> int:
        """Maximum number of transitions: `buffer_size`, rounded up to a multiple of the number of envs."""
        return self.ring.width * self.ring.capacity_per_env

    def append(self, slot: Rows, priority_TB: np.ndarray | None = None, first: int = 0) -> None:
        """Appends a full slot of the envs from `first` on, which must follow the slot appended for them before.

        Args:
            priority_TB: raw priorities of the slot's steps (ignored for steps that are not valid). Without them,
                transitions get the largest priority so far. VeldtError if a value is not a valid priority.
        """
        change = self.ring.append(slot, first)
        priority_M = None
        if priority_TB is not None or self.priority is not None:
            priority_M = self._priorities(change, priority_TB)
        self.index.written(change.removed_M, change.added_M, priority_M)

    def sample(self, batch: ReplayBatch, seed: int) -> None:
        """Draws all rows of `batch` with replacement, determined by `seed` (64 bits) and the buffer's content.

        At least one transition must be sampleable.
        """
        ring, returns = self.ring, self._returns
        position_N, batch.mass_N[:] = self.index.sample(len(batch), seed)
        batch.reward_N[:], batch.discount_N[:], bootstrap_N = n_step_returns(
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
        position_SN = np.stack([position_N, bootstrap_N])
        for name, field in self._fields.items():
            out = batch.observation[name], batch.next_observation[name]
            read_observations(ring.observation[name], field.stack, ring.episode_step, position_SN, out)
        batch.action_N[:] = ring.action.reshape(-1, *ring.action.shape[2:])[position_N]
        batch.key_N[:] = ring.keys(position_N)
        batch.version_N[:] = ring.version.reshape(-1)[position_N]

    def update(self, key_N: np.ndarray, priority_N: np.ndarray) -> None:
        """Sets new raw priorities of sampled transitions; drops and counts those of overwritten transitions.

        VeldtError if one of the others is not valid.
        """
        position_N, is_there_N = self.ring.positions(key_N)
        self.dropped += len(key_N) - int(is_there_N.sum())
        kept_N = np.asarray(priority_N, np.float64)[is_there_N]
        check_priorities(kept_N)
        self.index.update(position_N[is_there_N], kept_N)

    def _priorities(self, change: Change, priority_TB: np.ndarray | None) -> np.ndarray:
        """Returns the priorities of rows that became sampleable, as given on append; NaN if none was given."""
        if self.priority is None:
            self.priority = np.full(self.ring.valid.size, np.nan)
        if priority_TB is None:
            self.priority[change.step_M] = np.nan
        else:
            given_M = priority_TB.reshape(-1)[change.slot_M]
            check_priorities(given_M)
            self.priority[change.step_M] = given_M
        return self.priority[change.added_M]
