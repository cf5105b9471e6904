"""Turns the emulator's screens into the network's frames, recomputing only the rows that changed.

An Atari screen changes in a few rows from one step to the next. The two raw screens of a step are compared with those
of the previous step (20 words per row), and only output rows that depend on a changed row are computed again. The
result equals a full computation; it takes a few microseconds instead of thirty.

Screens are read as palette indices (1 µs) and not in grey (9 µs). The emulator does not publish its palette, so the
grey value of each index is read from the emulator's own grey screen when the index first appears.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from veldt.compiled import njit


@njit()
def mark_changed(screen, words, last_words, known, all_rows, changed):  # type: ignore[no-untyped-def]
    """Marks the rows of `screen` (uint8 [H, 160]; `words` is the same as uint64 [H, 20]) that differ from `last_words`.

    Copies them to `last_words`. Returns whether a changed row holds a palette index that is not `known` (bool [256]).
    """
    unknown = False
    for y in range(words.shape[0]):
        difference = numba.uint64(0)
        for x in range(words.shape[1]):
            difference |= words[y, x] ^ last_words[y, x]
        if difference != 0 or all_rows:
            changed[y] = True
            for x in range(words.shape[1]):
                last_words[y, x] = words[y, x]
            for x in range(screen.shape[1]):
                unknown |= not known[screen[y, x]]
    return unknown


@njit()
def halve(first, second, changed, grey, image):  # type: ignore[no-untyped-def]
    """104x80: crops one row above and below, takes the maximum of two grey screens, then the mean of each 2x2 block."""
    for y in range(image.shape[0]):
        top = 2 * y + 1
        if changed[top] or changed[top + 1]:
            for x in range(image.shape[1]):
                total = numba.uint32(2)  # rounds to nearest
                for row in range(top, top + 2):
                    for column in range(2 * x, 2 * x + 2):
                        total += max(grey[first[row, column]], grey[second[row, column]])
                image[y, x] = total >> 2


@njit()
def resize_area(first, second, changed, grey, narrow, image):  # type: ignore[no-untyped-def]
    """Any size: takes the maximum of two grey screens; each output pixel is the mean of the area it covers.

    `narrow` float32 [H, width] keeps the horizontally resized screen between steps.
    """
    rows, columns = first.shape[0], first.shape[1]
    height, width = image.shape
    for y in range(rows):
        if changed[y]:
            for x in range(width):
                begin, end = x * columns / width, (x + 1) * columns / width
                total = 0.0
                for column in range(int(begin), min(int(np.ceil(end)), columns)):
                    covered = min(end, column + 1.0) - max(begin, float(column))
                    total += covered * max(grey[first[y, column]], grey[second[y, column]])
                narrow[y, x] = total * width / columns
    for y in range(height):
        begin, end = y * rows / height, (y + 1) * rows / height
        low, high = int(begin), min(int(np.ceil(end)), rows)
        stale = False
        for row in range(low, high):
            stale |= changed[row]
        if stale:
            for x in range(width):
                total = 0.0
                for row in range(low, high):
                    total += (min(end, row + 1.0) - max(begin, float(row))) * narrow[row, x]
                image[y, x] = np.uint8(total * height / rows + 0.5)


class FrameMaker:
    """Makes the frame of a step from its last two screens.

    Args:
        screen: (height, width) of the emulator's screen; most games have 210 x 160, a few are taller.
        frame: (height, width) of the frame.
        grey_screen: writes the emulator's current screen in grey into a uint8 array of the screen's shape.
    """

    def __init__(
        self, screen: tuple[int, int], frame: tuple[int, int], grey_screen: Callable[[np.ndarray], None]
    ) -> None:
        self.screens = [np.zeros(screen, np.uint8) for _ in range(2)]
        self._words = [array.view(np.uint64) for array in self.screens]
        self._last = [np.zeros_like(words) for words in self._words]
        self._grey_screen = grey_screen
        self._grey, self._known = np.zeros(256, np.uint8), np.zeros(256, np.bool_)
        self._changed = np.zeros(screen[0], np.bool_)
        self._image = np.zeros(frame, np.uint8)
        self._halves = (screen[0] - 2, screen[1]) == (2 * frame[0], 2 * frame[1])
        self._narrow = np.zeros((screen[0], frame[1]), np.float32)
        self._compute_all = True

    def forget(self) -> None:
        """Makes the next frame a full computation, because the previous screens belong to another emulator state."""
        self._compute_all = True

    def take(self, which: int) -> None:
        """Processes the screen that the emulator has just written into `screens[which]` (0, then 1)."""
        screen = self.screens[which]
        if which == 0:
            self._changed[:] = self._compute_all
        if mark_changed(
            screen, self._words[which], self._last[which], self._known, self._compute_all, self._changed
        ):
            grey = np.empty_like(screen)
            self._grey_screen(grey)
            self._grey[screen.ravel()] = grey.ravel()
            self._known[screen.ravel()] = True

    def frame(self) -> np.ndarray:
        """Returns the frame of the last two screens, uint8; the next call overwrites the array."""
        first, second = self.screens
        if self._halves:
            halve(first, second, self._changed, self._grey, self._image)
        else:
            resize_area(first, second, self._changed, self._grey, self._narrow, self._image)
        self._compute_all = False
        return self._image
