"""How returns are made of stored rows; apart from their making, so that numba is not loaded for a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NStep:
    """How a transition's return is made from the rows that follow it.

    `steps` is n, `discount` is γ; rewards are clipped to [-1, 1] where `clip_rewards`, and a lost life ends the return
    as a terminal step does where `life_loss_ends`.
    """

    steps: int
    discount: float
    clip_rewards: bool
    life_loss_ends: bool
