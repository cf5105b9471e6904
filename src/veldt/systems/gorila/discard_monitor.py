"""Share of discarded gradients, with a warning when most of them are discarded for long."""

from __future__ import annotations

from collections.abc import Callable

_WINDOW = 200  # gradients that a share is computed over
_IN_A_ROW = 3  # windows in a row with more than half discarded, until the warning
_MOST = 0.5


class DiscardMonitor:
    """Computes shares from two counts that only grow; the first counts may include earlier parts of the run.

    Args:
        warn: called once with the share, when most gradients have been discarded for long.
    """

    def __init__(self, warn: Callable[[float], None]) -> None:
        self._warn, self._has_warned = warn, False
        self._before: tuple[int, int] | None = None
        self._in_a_row = 0
        self.share: float | None = None  # of the newest window; None before there is one

    def add(self, discarded: int, of: int) -> None:
        """Takes the current counts; after each full window, sets `share` to the discarded part of its gradients."""
        if self._before is None:
            self._before = (discarded, of)
        new, new_of = discarded - self._before[0], of - self._before[1]
        if new_of < _WINDOW:
            return
        self.share, self._before = new / new_of, (discarded, of)
        self._in_a_row = self._in_a_row + 1 if self.share > _MOST else 0
        if self._in_a_row >= _IN_A_ROW and not self._has_warned:
            self._has_warned = True
            self._warn(self.share)
