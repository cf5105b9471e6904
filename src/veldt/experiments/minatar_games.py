"""The games of MinAtar (Young & Tian 2019) as Gymnasium environments.

    pip install --no-deps minatar
    veldt train dqn --env veldt.experiments.minatar_games:breakout --network small

MinAtar is under the GPL, and no dependency of veldt. The games are as in its paper: all six actions, sticky actions
with probability 0.1, and difficulties that grow with time. They end by themselves only; nothing cuts them short.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

_COLOURS = np.array(
    [
        *((0, 0, 0), (90, 170, 255), (255, 90, 90), (110, 110, 110), (255, 210, 80), (120, 220, 120)),
        *((200, 120, 255), (255, 150, 60), (120, 230, 230), (230, 230, 230), (160, 120, 80)),
    ],
    np.uint8,
)
_PIXELS = 16  # a cell's side in a picture


class MinAtar(gymnasium.Env[np.ndarray, np.int64]):
    """A game of MinAtar. Observations are uint8 [4, 10, 10]: 255 where an object of that channel is, else 0."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 # as gymnasium.Env has it

    def __init__(self, game: str, render_mode: str | None = None) -> None:
        with _without_warnings():  # that seaborn is missing, which only MinAtar's own window needs
            from minatar import Environment  # type: ignore[import-untyped,import-not-found,unused-ignore]
        self._game = Environment(game)
        height, width, channels = self._game.state_shape()
        self.observation_space = gymnasium.spaces.Box(0, 255, (channels, height, width), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(self._game.num_actions())
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._game.seed(seed)
        # A sticky action repeats the last one, which MinAtar keeps from the game before: with that, a seed alone would
        # not determine the game.
        self._game.last_action = 0
        self._game.reset()
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward, terminated = self._game.act(action)
        return self._observation(), float(reward), terminated, False, {}

    def render(self) -> np.ndarray:
        """uint8 [160, 160, 3]; of several objects in a cell, the one of the last channel is seen."""
        channels = np.arange(1, self._game.n_channels + 1)
        picture = _COLOURS[(self._game.state() * channels).max(-1)]
        return picture.repeat(_PIXELS, 0).repeat(_PIXELS, 1)

    def _observation(self) -> np.ndarray:
        return self._game.state().transpose(2, 0, 1) * np.uint8(255)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """No warning is logged in the block; afterwards the program's own level is in force."""
    level = logging.root.manager.disable
    logging.disable(max(level, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(level)


def asterix(render_mode: str | None = None) -> MinAtar:
    """MinAtar's Asterix."""
    return MinAtar("asterix", render_mode)


def breakout(render_mode: str | None = None) -> MinAtar:
    """MinAtar's Breakout."""
    return MinAtar("breakout", render_mode)


def freeway(render_mode: str | None = None) -> MinAtar:
    """MinAtar's Freeway."""
    return MinAtar("freeway", render_mode)


def seaquest(render_mode: str | None = None) -> MinAtar:
    """MinAtar's Seaquest."""
    return MinAtar("seaquest", render_mode)


def space_invaders(render_mode: str | None = None) -> MinAtar:
    """MinAtar's SpaceInvaders."""
    return MinAtar("space_invaders", render_mode)
