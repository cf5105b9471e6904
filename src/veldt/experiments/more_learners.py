"""How fast more learners would be than a machine has, computed from runs of one and of two learners on it.

Each learner of more would have what each of two has here: half of the cores, and an accelerator where these had one.
Seconds of one agent step, of all learners together:

    two learners, without an exchange    own(2) = max(1 / 2, busy / cores) * alone
    their exchange                       exchange(2) = pair - own(2), not less than 0
    n learners                           (2 / n) * own(2) + exchange(n)

`alone` and `pair` are measured with one and with two learners, and so is `busy`, the cores that one keeps busy. The
exchange grows as the kind of the system says. There are no stragglers and no contention, so it is a bound from above
of the speed, as in docs/scaling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Exchange = Literal["one batch for all", "a batch for each", "asynchronous"]


@dataclass(frozen=True)
class MeasuredPair:
    """Seconds of an agent step with one learner and with two, on a machine of `cores` of which one uses `busy`."""

    alone_s: float
    pair_s: float
    busy: float
    cores: int

    @property
    def own_s(self) -> float:
        """Seconds of an agent step with two learners that exchange nothing."""
        return max(0.5, self.busy / self.cores) * self.alone_s

    def step_s(self, learners: int, exchange: Exchange) -> float:
        """Returns the seconds of an agent step with two or more learners."""
        exchanged_s = max(0.0, self.pair_s - self.own_s)
        return 2.0 / learners * self.own_s + _GROWTH[exchange](learners) * exchanged_s


def _all_reduce(learners: int) -> float:
    """Returns the time of an all-reduce in a ring over that of two learners: by the bytes that each of them sends."""
    return 2.0 * (learners - 1) / learners


# The exchange of an agent step over that of two learners. A batch that all share is learned from as often, however many
# they are: what an update costs besides its rows grows as the all-reduce does, from 1/2 to (n - 1) / n of it.
_GROWTH: Mapping[Exchange, Callable[[int], float]] = {
    "one batch for all": _all_reduce,
    "a batch for each": lambda learners: 2.0 / learners * _all_reduce(learners),
    "asynchronous": lambda learners: 2.0 / learners,
}
