"""Settings of the n-step return; a module of its own, so that reading settings does not load numba."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NStep:
    """How a transition's return is computed from the rows that follow it.

    `steps` is n, `gamma` is γ. `clip_rewards` clips rewards to [-1, 1]; with `terminal_on_life_loss` a lost life ends
    the return as a terminal step does.
    """

    steps: int
    gamma: float
    clip_rewards: bool
    terminal_on_life_loss: bool
