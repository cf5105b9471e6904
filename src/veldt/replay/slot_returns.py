"""n-step returns of a slot that is not stored yet, for initial priorities of its steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veldt.envs.trajectory import Rows
from veldt.replay.n_step import NStep
from veldt.replay.returns import n_step_returns


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
