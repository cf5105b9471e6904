"""n-step returns (Sutton 1988; Mnih et al. 2016, section 4).

The replay buffer computes them from stored rows when these are sampled, an actor those of a slot that is not stored
yet, for initial priorities of its steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veldt.compiled import njit
from veldt.envs.trajectory import Rows
from veldt.replay.settings import NStep


@njit()
def n_step_returns(  # type: ignore[no-untyped-def]
    reward,
    terminated,
    life_lost,
    valid,
    rows,
    steps,
    gamma,
    clip_rewards,
    terminal_on_life_loss,
    position_N,
):
    """Computes the discounted sum of up to n rewards from each row, and the row and discount for the bootstrap.

        R_r = Σ_{k<m} γ^k r_{r+k},   bootstrapped with discount_r V(o_{r+m})

    m is n, or less where the episode ends first: after a terminal step discount_r is 0; before a row that is not valid
    (an episode's last observation, after a truncation or a restart) it is γ^m as usual.

    Args:
        reward, terminated, life_lost, valid: float32 and bool [B R], the rings of all envs one after another.
        rows: R.
        steps, gamma, clip_rewards, terminal_on_life_loss: n and γ, and the rest as in `NStep`.
        position_N: int64 [N], of valid rows.

    Returns:
        reward_N float32, discount_N float32, and the position of the row to bootstrap from, int64 [N].
    """
    count = len(position_N)
    reward_N = np.empty(count, np.float32)
    discount_N = np.empty(count, np.float32)
    bootstrap_N = np.empty(count, np.int64)
    for n in range(count):
        at = position_N[n]
        end = (at // rows + 1) * rows
        total, factor = 0.0, 1.0
        for _ in range(steps):
            if not valid[at]:
                break
            gained = reward[at]
            if clip_rewards:
                gained = min(max(gained, np.float32(-1.0)), np.float32(1.0))
            total += factor * gained
            over = terminated[at] or (terminal_on_life_loss and life_lost[at])
            factor = 0.0 if over else factor * gamma
            at = at + 1 if at + 1 < end else end - rows
            if over:
                break
        reward_N[n], discount_N[n], bootstrap_N[n] = total, factor, at
    return reward_N, discount_N, bootstrap_N


class SlotReturns(NamedTuple):
    """For each valid step: its row t B + b, its return, and the row to bootstrap from, in [0, (T + 1) B)."""

    row_N: np.ndarray
    reward_N: np.ndarray
    discount_N: np.ndarray
    bootstrap_N: np.ndarray


def slot_returns(slot: Rows, returns: NStep) -> SlotReturns:
    """See `n_step_returns`. Returns that reach the slot's end stop there and bootstrap from its last row."""

    def by_env(array_TB: np.ndarray) -> np.ndarray:
        """Reorders to [B (T + 1)], with a last row per env that is not a step."""
        rows = np.zeros((slot.width, slot.steps + 1), array_TB.dtype)
        rows[:, : slot.steps] = array_TB.T
        return rows.reshape(-1)

    valid = by_env(slot.valid)
    position_N = np.flatnonzero(valid)
    reward_N, discount_N, next_N = n_step_returns(
        by_env(slot.reward),
        by_env(slot.terminated),
        by_env(slot.life_lost),
        valid,
        slot.steps + 1,
        returns.steps,
        returns.gamma,
        returns.clip_rewards,
        returns.terminal_on_life_loss,
        position_N,
    )
    rows_N = [
        at_N % (slot.steps + 1) * slot.width + at_N // (slot.steps + 1) for at_N in (position_N, next_N)
    ]
    return SlotReturns(rows_N[0], reward_N, discount_N, rows_N[1])
