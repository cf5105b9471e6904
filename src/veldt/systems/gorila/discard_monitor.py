"""Gradients that are discarded: which share of them, and a word when that is most of them for long."""

from __future__ import annotations

from collections.abc import Callable

_WINDOW = 200  # gradients of a share
_IN_A_ROW = 3  # windows of which more than half was discarded, until that is said
_MOST = 0.5


class DiscardMonitor:
    """What is known from counts that only grow; the first that it is told may be of a whole run before.

    Args:
        say: told the share, once, when most have been discarded for long.
    """

    def __init__(self, say: Callable[[float], None]) -> None:
        self._say, self._has_said = say, False
        self._before: tuple[int, int] | None = None
        self._in_a_row = 0
        self.share: float | None = None  # of the newest window; None before there is one

    def add(self, discarded: int, of: int) -> None:
        """Takes the counts as they are now: of a window's gradients, `share` becomes the part that was discarded."""
        if self._before is None:
            self._before = (discarded, of)
        new, new_of = discarded - self._before[0], of - self._before[1]
        if new_of < _WINDOW:
            return
        self.share, self._before = new / new_of, (discarded, of)
        self._in_a_row = self._in_a_row + 1 if self.share > _MOST else 0
        if self._in_a_row >= _IN_A_ROW and not self._has_said:
            self._has_said = True
            self._say(self.share)
