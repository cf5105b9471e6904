"""GA3C's annealing tuner: how many predictors, trainers and agents there are, by what they were seen to train.

"Every minute we randomly change N_P and N_T by +-1, monitoring change in TPS to accept or reject the new setting"
(Babaeizadeh et al. 2017, section 2). What a setting was worth a minute ago says little on a machine that others use,
too; so one interval is measured with the setting that was kept, and the next with another, in turn:

    kept   moved   kept   moved again   ...

A move stays if training was quicker both times than in the intervals of the kept setting before and between. One
good number, the machine's own drift, and a neighbour that comes or goes, fit some of these, but not all four.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

Setting = Mapping[str, int]

_RISE = 0.02  # by which the rate has to grow: less is not worth a thread


@dataclass(frozen=True)
class Decision:
    """What became of a move: its rates, and those of the setting that was kept until then."""

    previous: Setting
    moved: Setting
    previous_tps: tuple[float, ...]
    moved_tps: tuple[float, ...]
    is_accepted: bool


class Tuner:
    """Says with which setting the next interval is to be measured; knows no clock, and nothing of threads.

    Args:
        setting: to begin with, by name.
        bounds: the least and the most of each.
    """

    def __init__(self, setting: Setting, bounds: Mapping[str, tuple[int, int]], seed: int) -> None:
        self.accepted, self._bounds, self._random = dict(setting), bounds, random.Random(seed)
        self.setting: Setting = dict(setting)  # of the interval that is being measured
        self._before: float | None = None  # the kept setting's newest rate
        self._rates: list[float] = []  # of the move, the kept setting, the move again
        self._moves: list[tuple[str, int]] = []  # that are still to be tried from here

    def record(self, tps: float) -> Decision | None:
        """Takes the rate of the interval with `setting`, and says what became of a move, if that is decided now."""
        if self._before is None:
            self._before = tps
            self._move()
            return None
        self._rates.append(tps)
        if len(self._rates) == 1:
            self.setting = self.accepted
            return None
        moved, between = self._rates[::2], self._rates[1]
        needed = max(self._before, between) * (1.0 + _RISE)
        stays = min(moved) > needed
        if len(self._rates) == 2 and stays:
            self.setting = self._moved
            return None
        decision = Decision(self.accepted, self._moved, (self._before, between), tuple(moved), stays)
        if stays:
            self.accepted, self._before = dict(self._moved), tps
            self._moves = [self._direction]  # what helped once may help again
        else:
            self._before = between
        self._move()
        return decision

    def _move(self) -> None:
        """Chooses what to try next: each move once, in random order, before any is tried again."""
        self._rates = []
        possible = [move for move in self._moves if self._is_within(move)]
        if not possible:
            possible = [(name, by) for name in self._bounds for by in (-1, 1) if self._is_within((name, by))]
            self._random.shuffle(possible)
        if not possible:  # nothing may move
            self._before, self.setting = None, self.accepted
            return
        self._direction, *self._moves = possible
        name, by = self._direction
        self._moved = {**self.accepted, name: self.accepted[name] + by}
        self.setting = self._moved

    def _is_within(self, move: tuple[str, int]) -> bool:
        name, by = move
        least, most = self._bounds[name]
        return least <= self.accepted[name] + by <= most
