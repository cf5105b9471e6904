"""How returns are made of stored rows; apart from their making, so that numba is not loaded for a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NStep:
    """How a transition's return is made from the rows that follow it.

    `steps` is n, `gamma` is γ; rewards are clipped to [-1, 1] where `clip_rewards`, and a lost life ends the return
    as a terminal step does where `terminal_on_life_loss`.
    """

    steps: int
    gamma: float
    clip_rewards: bool
    terminal_on_life_loss: bool
