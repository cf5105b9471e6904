"""A replay shard of numbered rows, behind whichever end of the edge."""

from __future__ import annotations

import numpy as np

from veldt.exchange.replay import ReplayOut
from veldt.runtime.shared import Layout

ROWS = 16
BATCH = {
    "key": Layout((ROWS,), "int64"),
    "mass": Layout((ROWS,), "float64"),
    "shard": Layout((ROWS,), "int64"),
}


class NumberedShard:
    """Holds numbered rows with masses; writes the number as key."""

    def __init__(self, end: ReplayOut, number: int, mass: np.ndarray) -> None:
        self.end, self.number, self.mass = end, number, mass
        self.updates: list[tuple[list[int], list[float]]] = []

    def say(self) -> None:
        self.end.state(float(self.mass.sum()), len(self.mass), 0)

    def work(self) -> int:
        """Carries out what was ordered; returns how much it was."""
        done = 0
        while (taken := self.end.take()) is not None:
            order, place = taken
            if order.out is None:
                self.updates.append((order.key_N.tolist(), order.priority_N.tolist()))
            else:
                rng, count = np.random.default_rng(order.seed), len(order.out["key"])
                target = (np.arange(count) + rng.random(count)) / count * self.mass.sum()
                drawn = np.searchsorted(np.cumsum(self.mass), target, side="right")
                order.out["key"][:], order.out["mass"][:] = drawn, self.mass[drawn]
                order.out["shard"][:] = self.number
            self.end.done(order, place)
            done += 1
        return done
