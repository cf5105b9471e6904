"""A recurrent core of your own in the place of veldt's LSTM: `python recurrent_network.py`.

The env shows a cue at the first step of an episode, and asks for it at the last. Without a recurrent state, half of the
answers are right. From the command line:

    veldt train a2c --env recurrent_network:Recall --core recurrent_network:Core --shared
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

import veldt
from veldt.networks.own_core import where_reset

LENGTH = 6


class Recall(gymnasium.Env[np.ndarray, Any]):
    """Observations: the cue, -1 or 1, at the first step and 0 later; and 1 at the last step, when it is asked for."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._step, self._cue = 0, int(self.np_random.integers(2))
        return np.array([2 * self._cue - 1, 0], np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._step += 1
        is_over = self._step == LENGTH
        reward = float(is_over and int(action) == self._cue)
        return np.array([0, self._step == LENGTH - 1], np.float32), reward, is_over, False, {}


class Core(nn.Module):
    """A gated recurrent unit with layer normalisation, over rows [T, B] in time order."""

    def __init__(self, features: int, units: int = 32) -> None:
        super().__init__()
        self.cell, self.norm = nn.GRUCell(features, units), nn.LayerNorm(units)
        self.units = units

    def initial_state(self, batch: int) -> Tensor:
        """The state of so many envs at the beginning of an episode: a tensor, or a tuple or dictionary of tensors."""
        return torch.zeros(batch, self.units)

    def forward(self, features: Tensor, state: Tensor, reset: Tensor) -> tuple[Tensor, Tensor]:
        """Returns outputs [T, B, units], and the state after the last row.

        Args:
            features: float32 [T, B, F], of the torso.
            state: before the first row.
            reset: bool [T, B], rows that begin an episode; before these, the state becomes the initial one.
        """
        outputs = []
        for features_B, reset_B in zip(features, reset, strict=True):
            state = self.cell(features_B, where_reset(reset_B, torch.zeros_like(state), state))
            outputs.append(self.norm(state))
        return torch.stack(outputs), state


def main(**settings: Any) -> veldt.Run:
    """Trains, and returns the run."""
    chosen = {
        "steps": 200_000,
        "until": 0.95,
        "shared": True,
        "num_envs": 16,
        "horizon": 12,
        "learning_rate": 2e-3,
        "ent_coef": 0.01,
        "gamma": 0.9,
        "hidden": (16,),
        "env_backend": "in-process",
    }
    return veldt.train("a2c", env=Recall, core=Core, **(chosen | settings))


if __name__ == "__main__":
    run = main()
    print(
        run.reason, veldt.evaluate(veldt.load(run.path, env=Recall, core=Core), episodes=50, greedy=True).mean
    )
