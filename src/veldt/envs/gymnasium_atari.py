"""The native Atari env as a Gymnasium environment of stacked frames, for use outside a run."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from veldt.envs.atari import NativeAtari
from veldt.envs.settings import AtariConfig


class AtariEnv(gymnasium.Env[np.ndarray, int]):
    """Observations uint8 [stack, H, W] as the network sees them; frames from before the episode are 0."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - Gymnasium's own interface

    def __init__(self, env: str, config: AtariConfig) -> None:
        self._env = NativeAtari(env, config)
        field, action = self._env.spec.observation[""], self._env.spec.action
        self.observation_space = gymnasium.spaces.Box(0, 255, (config.frame_stack, *field.shape), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(action.sizes[0])  # type: ignore[assignment]
        self.render_mode = "rgb_array"
        self._stack = np.zeros((config.frame_stack, *field.shape), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._stack[:] = 0
        self._env.reset(int(self.np_random.integers(2**31)) if seed is None else seed, [self._stack], -1)
        return self._stack.copy(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._stack[:-1] = self._stack[1:]
        reward, terminated, truncated, life_lost = self._env.step(int(action), [self._stack], -1)
        return self._stack.copy(), reward, terminated, truncated, {"life_lost": life_lost}

    def render(self) -> np.ndarray:
        return self._env.render()
