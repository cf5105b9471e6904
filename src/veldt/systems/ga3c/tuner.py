"""GA3C's annealing tuner: sets the numbers of predictors, trainers and agents by the measured training rate.

"Every minute we randomly change N_P and N_T by +-1, monitoring change in TPS to accept or reject the new setting"
(Babaeizadeh et al. 2017, section 2; `thread_tuning.py` says which rate that is here). On a machine with other users, a
rate of a minute ago may not hold any more; so intervals with the accepted setting and with another one alternate:

    accepted   moved   accepted   moved again   ...

A move is accepted if training was faster in both of its intervals than in the accepted setting's before and between
them. One lucky interval, drift of the machine, or a neighbour that starts or stops fits some of the four, but not all.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

Setting = Mapping[str, int]

_RISE = 0.02  # relative gain that a move needs: less is not worth a thread


@dataclass(frozen=True)
class Decision:
    """The decision on a move: its rates, and those of the setting that was accepted until then."""

    previous: Setting
    moved: Setting
    previous_rates: tuple[float, ...]
    moved_rates: tuple[float, ...]
    is_accepted: bool


class Tuner:
    """Chooses the setting of each interval; it has no clock, and knows no threads.

    Args:
        setting: the first one, by name.
        bounds: minimum and maximum of each.
    """

    def __init__(self, setting: Setting, bounds: Mapping[str, tuple[int, int]], seed: int) -> None:
        self.accepted, self._bounds, self._random = dict(setting), bounds, random.Random(seed)
        self.setting: Setting = dict(setting)  # of the current interval
        self._before: float | None = None  # the accepted setting's newest rate
        self._rates: list[float] = []  # of the move, the accepted setting, the move again
        self._moves: list[tuple[str, int]] = []  # not yet tried from the accepted setting

    def record(self, rate: float) -> Decision | None:
        """Takes the rate of the interval with `setting`; returns the decision on a move, if it is made now."""
        if self._before is None:
            self._before = rate
            self._move()
            return None
        self._rates.append(rate)
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
            self.accepted, self._before = dict(self._moved), rate
            self._moves = [self._direction]  # a direction that helped once may help again
        else:
            self._before = between
        self._move()
        return decision

    def _move(self) -> None:
        """Chooses the next move: each one once, in random order, before any is tried again."""
        self._rates = []
        possible = [move for move in self._moves if self._is_within(move)]
        if not possible:
            possible = [(name, by) for name in self._bounds for by in (-1, 1) if self._is_within((name, by))]
            self._random.shuffle(possible)
        if not possible:  # no number may change
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
