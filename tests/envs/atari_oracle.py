"""A naive Atari: grey screens of a fresh emulator, maximum of the last two, cropped and averaged in plain numpy."""

from __future__ import annotations

import numpy as np
from ale_py import Action, ALEInterface, LoggerMode, roms

from veldt.envs.settings import AtariConfig


class NaiveAtari:
    """One game from its reset on, stepped frame by frame; a new emulator each time."""

    def __init__(self, rom: str, config: AtariConfig, seed: int) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setInt("random_seed", 0)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path(rom))
        self.ale.reset_game()
        self.config, self.actions = config, self.ale.getMinimalActionSet()
        # What the settings promise: a random number of no-ops, then FIRE where the game waits for it.
        draw = np.random.Generator(np.random.Philox(seed)).integers(0, config.no_ops)
        for _ in range(1 + int(draw)):
            self.ale.act(Action.NOOP)
        if len(self.actions) > 1 and self.actions[1] == Action.FIRE:
            for _ in range(config.frame_skip):
                self.ale.act(Action.FIRE)
        self.first = self.ale.getScreenGrayscale()

    def step(self, action: int) -> tuple[float, np.ndarray]:
        """(reward, maximum of the last two grey screens of the step)."""
        reward, screens = 0, []
        for _ in range(self.config.frame_skip):
            reward += self.ale.act(self.actions[action])
            screens.append(self.ale.getScreenGrayscale())
        return reward, np.max(screens[-2:], axis=0)


def halved(grey: np.ndarray) -> np.ndarray:
    """One row cropped above and below, 2x2 means rounded to nearest (halves up)."""
    blocks = grey[1:-1].astype(int).reshape(grey.shape[0] // 2 - 1, 2, grey.shape[1] // 2, 2)
    return (blocks.sum((1, 3)) + 2) // 4


def area_averaged(grey: np.ndarray, height: int, width: int) -> np.ndarray:
    """Each pixel the mean of the rectangle it covers, in float64."""
    return _coverage(height, grey.shape[0]) @ grey.astype(float) @ _coverage(width, grey.shape[1]).T


def _coverage(outputs: int, inputs: int) -> np.ndarray:
    """[outputs, inputs], the share of each input in each output."""
    size = inputs / outputs
    begin, end = np.arange(outputs)[:, None] * size, np.arange(1, outputs + 1)[:, None] * size
    pixel = np.arange(inputs)[None]
    return np.clip(np.minimum(end, pixel + 1) - np.maximum(begin, pixel), 0, None) / size
