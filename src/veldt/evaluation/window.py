"""A window that shows frames at a fixed rate and reports which keys are held."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from veldt.errors import UsageError

_WANTED_HEIGHT = 600
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
_ELSEWHERE = "play where you sit, and copy the file of starts to where it is needed"


class Window:
    """A pygame window. Raises UsageError if pygame is not installed, or there is no screen."""

    def __init__(self, rate: float) -> None:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame
        except ImportError:
            raise UsageError(
                "a person plays in a window of pygame, which is not installed: pip install 'veldt[video]'"
            ) from None
        self._pygame: Any = pygame
        # Checked before SDL, which prints a message of its own if it finds no screen.
        if sys.platform == "linux" and not any(os.environ.get(name) for name in _SCREENS):
            raise UsageError(f"there is no screen to play on: {_ELSEWHERE}")
        try:
            pygame.display.init()
        except pygame.error as error:
            raise UsageError(f"there is no screen to play on ({error}): {_ELSEWHERE}") from None
        if pygame.display.get_driver() in ("dummy", "offscreen") and "SDL_VIDEODRIVER" not in os.environ:
            pygame.display.quit()
            raise UsageError(f"there is no screen to play on: {_ELSEWHERE}")
        self._rate, self._clock = rate, pygame.time.Clock()
        self._screen: Any = None
        self._held: set[str] = set()
        words = {"UP": "UP", "DOWN": "DOWN", "LEFT": "LEFT", "RIGHT": "RIGHT", "FIRE": "SPACE"}
        self._key_names = {getattr(pygame, f"K_{key}"): word for word, key in words.items()}
        for digit in "0123456789":
            self._key_names |= {getattr(pygame, f"K_{digit}"): digit, getattr(pygame, f"K_KP{digit}"): digit}

    def show(self, picture: np.ndarray, title: str) -> frozenset[str] | None:
        """Shows a picture, uint8 [H, W, 3], until the next is due. Returns the keys that were held in the meantime.

        The keys are UP, DOWN, LEFT, RIGHT (the arrows), FIRE (space) and the digits. Returns None after Escape was
        pressed or the window was closed.
        """
        pygame = self._pygame
        surface = pygame.surfarray.make_surface(picture.swapaxes(0, 1))
        if self._screen is None:
            scale = max(1, round(_WANTED_HEIGHT / len(picture)))
            self._screen = pygame.display.set_mode((scale * picture.shape[1], scale * picture.shape[0]))
        pygame.transform.scale(surface, self._screen.get_size(), self._screen)
        pygame.display.set_caption(title)
        pygame.display.flip()
        self._clock.tick(self._rate)
        seen = set(self._held)  # a key may be pressed and released within one step
        for event in pygame.event.get():
            if event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key == pygame.K_ESCAPE):
                return None
            if event.type == pygame.KEYDOWN and event.key in self._key_names:
                self._held.add(self._key_names[event.key])
                seen.add(self._key_names[event.key])
            elif event.type == pygame.KEYUP and event.key in self._key_names:
                self._held.discard(self._key_names[event.key])
        return frozenset(seen)

    def close(self) -> None:
        self._pygame.display.quit()
