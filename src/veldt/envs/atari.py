"""Native Atari: the Arcade Learning Environment stepped directly, without wrappers.

A step is four emulated frames; the frame is the maximum of the last two screens. Single frames are stored (stacks are
made at use), rewards are raw, and the loss of a life is a flag and not a reset. Each episode restores the emulator's
state after its own reset (30 µs, where a reset takes 4 ms), then plays a random number of no-ops, and FIRE if the game
waits for it. Every random draw comes from the episode's seed, so an episode is determined by its seed and its actions.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
from ale_py import Action as AleAction
from ale_py import ALEInterface, ALEState, LoggerMode, roms

from veldt.envs.atari_frames import FrameMaker
from veldt.envs.settings import AtariConfig
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.errors import UsageError, did_you_mean

_STATE = struct.Struct("<qqqq")  # seed, steps, frames, previous action; the emulator's own state follows
_DRAWS = 4096  # sticky-action draws made at a time


class NativeAtari:
    """One Atari game. `env` is a Gymnasium name such as ALE/Breakout-v5."""

    def __init__(self, env: str, config: AtariConfig) -> None:
        self._config = config
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ale = ALEInterface()
        ale.setInt("random_seed", 0)
        # Sticky actions are drawn here, from the episode's seed.
        ale.setFloat("repeat_action_probability", 0.0)
        ale.loadROM(rom_path(env))
        ale.reset_game()
        self._start = ale.cloneState()
        self._actions = ale.getLegalActionSet() if config.full_action_space else ale.getMinimalActionSet()
        # As in OpenAI Baselines: a game whose second minimal action is FIRE waits for it.
        self._fires = ale.getMinimalActionSet()[1:2] == [AleAction.FIRE]
        screen, frame = ale.getScreenDims(), tuple(int(n) for n in config.preprocessing.split("x"))
        self._frames = FrameMaker(tuple(screen), (frame[0], frame[1]), ale.getScreenGrayscale)
        self.spec = EnvSpec(
            {"": ArraySpec((frame[0], frame[1]), "uint8", stack=config.frame_stack)},
            ActionSpec("discrete", sizes=(len(self._actions),), start=(0,)),
            frames_per_step=config.frame_skip,
        )
        self._seed = self._steps = self._frame = self._previous = self._lives = 0
        self._draws, self._draws_of = np.empty(0), (-1, -1)

    def reset(self, seed: int, rows: list[np.ndarray], index: int) -> None:
        ale = self._ale
        ale.restoreState(self._start)
        self._seed, self._steps, self._frame, self._previous = seed, 0, 0, 0
        rng = np.random.Generator(np.random.Philox(seed))
        # At least one frame: a restored state has no screen yet.
        for _ in range(1 + int(rng.integers(0, max(self._config.no_ops, 1)))):
            ale.act(AleAction.NOOP)
        if self._fires:
            for _ in range(self._config.frame_skip):
                ale.act(AleAction.FIRE)
        self._lives = ale.lives()
        self._frames.forget()
        for which in (0, 1):
            ale.getScreen(self._frames.screens[which])
            self._frames.take(which)
        rows[0][index] = self._frames.frame()

    def step(self, action: Any, rows: list[np.ndarray], index: int) -> tuple[float, bool, bool, bool]:
        ale, frames = self._ale, self._frames
        skip = self._config.frame_skip
        wanted = self._actions[action]
        if self._config.sticky_actions:
            reward, last = self._sticky_frames(action, skip)
        else:
            # An action after the end of the game does nothing and has reward 0: no check between frames is needed.
            reward, last = 0, wanted
            for _ in range(skip - 1):
                reward += ale.act(wanted)
        if skip > 1:
            ale.getScreen(frames.screens[0])
            frames.take(0)
        reward += ale.act(last)
        # With one frame per step, both screens are that frame: a restored emulator has no earlier screen.
        for which in (0, 1) if skip == 1 else (1,):
            ale.getScreen(frames.screens[which])
            frames.take(which)
        rows[0][index] = frames.frame()
        self._steps += 1
        lives, before = ale.lives(), self._lives
        self._lives = lives
        terminated = ale.game_over()
        truncated = not terminated and self._steps >= self._config.max_episode_steps
        return float(reward), terminated, truncated, lives < before and not terminated

    def _sticky_frames(self, action: int, skip: int) -> tuple[int, AleAction]:
        """Plays the first `skip - 1` frames with sticky actions; also returns the action of the last frame."""
        reward, current = 0, self._previous
        for frame in range(skip):
            if self._draw(self._frame + frame) >= self._config.sticky_actions:
                current = action
            if frame < skip - 1:
                reward += self._ale.act(self._actions[current])
        self._previous, self._frame = current, self._frame + skip
        return reward, self._actions[current]

    def _draw(self, frame: int) -> float:
        """Returns the uniform draw of one frame of this episode, a function of (seed, frame)."""
        block = frame // _DRAWS
        if self._draws_of != (self._seed, block):
            rng = np.random.Generator(np.random.Philox(key=self._seed, counter=(block + 1) << 64))
            self._draws, self._draws_of = rng.random(_DRAWS), (self._seed, block)
        return float(self._draws[frame % _DRAWS])

    def save(self) -> bytes | None:
        header = _STATE.pack(self._seed, self._steps, self._frame, self._previous)
        return header + bytes(self._ale.cloneState().serialize())

    def restore(self, state: bytes) -> None:
        self._seed, self._steps, self._frame, self._previous = _STATE.unpack(state[: _STATE.size])
        self._ale.restoreState(ALEState(state[_STATE.size :]))
        self._lives = self._ale.lives()
        self._frames.forget()

    def render(self) -> np.ndarray:
        return np.asarray(self._ale.getScreenRGB())

    def action_names(self) -> list[str]:
        return [action.name for action in self._actions]

    def close(self) -> None:
        pass  # the emulator is freed with its object


def rom_path(env: str) -> Path:
    """Returns the path of the ROM that ale-py has for ALE/Breakout-v5; UsageError for a game that it does not have."""
    name = re.sub(r"-v\d+$", "", env.removeprefix("ALE/"))
    rom = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    known = roms.get_all_rom_ids()
    if rom not in known:
        games = ["ALE/" + "".join(part.capitalize() for part in game.split("_")) + "-v5" for game in known]
        raise UsageError(
            f"ale-py has no game '{env}'{did_you_mean(env, games)}: names look like ALE/Breakout-v5"
        )
    path = roms.get_rom_path(rom)
    assert path is not None
    return path
