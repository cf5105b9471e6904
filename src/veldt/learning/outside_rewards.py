"""Counts rewards that a distribution over fixed atoms cannot represent (Bellemare, Dabney & Munos 2017)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veldt.algorithms.base import OffPolicy
from veldt.envs.trajectory import Trajectory


class OutsideRewards:
    """Counts the rewards outside of the algorithm's range in each slot; `total` is their number so far.

    Without a range, as for algorithms that learn expected values, nothing is counted.

    Args:
        note: called with a message for the user when the first are found.
    """

    def __init__(self, algorithm: OffPolicy, note: Callable[[str], None]) -> None:
        self._range, self._clips = algorithm.reward_range, algorithm.returns.clip_rewards
        self._note = note
        self.total = 0

    def count(self, slot: Trajectory) -> None:
        """Adds the rewards of the slot's steps."""
        if self._range is None:
            return
        low, high = self._range
        reward = slot.reward[slot.valid]
        if self._clips:
            reward = reward.clip(-1.0, 1.0)
        outside = int(np.count_nonzero((reward < low) | (reward > high)))
        if outside and not self.total:
            self._note(
                f"{outside} of the last {len(reward)} rewards lie outside the atoms' range, {low:g} to {high:g}, and "
                "values beyond cannot be learned: widen --value-min and --value-max, or use --clip-rewards (metrics "
                "count them on as replay/rewards_outside_atoms)"
            )
        self.total += outside

    def metrics(self) -> dict[str, float]:
        return {} if self._range is None else {"replay/rewards_outside_atoms": float(self.total)}
