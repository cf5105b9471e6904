"""A replay shard of numbered rows, behind whichever end of the edge."""

from __future__ import annotations

import numpy as np

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.exchange.replay import ReplayOut
from veldt.replay.batch import batch_layouts

ROWS = 16
SPEC = EnvSpec({"": ArraySpec((3,), "float32")}, ActionSpec("discrete", sizes=(2,), start=(0,)))
BATCH = batch_layouts(SPEC, ROWS)


class NumberedShard:
    """Holds numbered rows with masses; writes the number as key, and its own number as version."""

    def __init__(self, end: ReplayOut, number: int, mass: np.ndarray) -> None:
        self.end, self.number, self.mass = end, number, mass
        self.updates: list[tuple[list[int], list[float]]] = []

    def say(self) -> None:
        self.end.state(float(self.mass.sum()), len(self.mass), 0)

    def work(self) -> int:
        """Carries out the requests that have arrived; returns their number."""
        done = 0
        while (taken := self.end.take()) is not None:
            request, batch_index = taken
            if request.out is None:
                self.updates.append((request.key_N.tolist(), request.priority_N.tolist()))
            else:
                rng, count = np.random.default_rng(request.seed), len(request.out)
                target = (np.arange(count) + rng.random(count)) / count * self.mass.sum()
                drawn = np.searchsorted(np.cumsum(self.mass), target, side="right")
                request.out.key_N[:], request.out.mass_N[:] = drawn, self.mass[drawn]
                request.out.version_N[:] = self.number
            self.end.done(request, batch_index)
            done += 1
        return done
