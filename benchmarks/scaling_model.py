"""The systems on paper: how many agent steps a second each makes, and what binds.

A role or an edge is a station: it has some servers, and one step of the run takes one of them so many seconds (its
demand). Stations that work side by side bound the run by the slowest, and stations of a chain, which take turns, by the
sum of their times:

    capacity = servers / demand        SPS = min over chains of 1 / (sum of 1 / capacity of the chain's stations)

These are the asymptotic bounds of queueing networks (Denning & Buzen 1978, section 5): no waiting, no stragglers, so a
run is slower than this. Costs are lines, seconds = fixed + each * number, through what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LinearCost:
    """Seconds of something of a size."""

    fixed: float
    each: float

    def __call__(self, number: float) -> float:
        return self.fixed + self.each * number


def line_through(points: Sequence[tuple[float, float]]) -> LinearCost:
    """Of least squared relative errors, neither part below 0; through the origin where all points are of one size."""
    number_N, seconds_N = np.array(points, float).T
    if len(set(number_N)) > 1:
        rows_N2 = np.stack([1 / seconds_N, number_N / seconds_N], axis=1)
        fixed, each = np.linalg.lstsq(rows_N2, np.ones(len(points)), rcond=None)[0]
        if fixed >= 0 and each >= 0:
            return LinearCost(float(fixed), float(each))
        if each < 0:
            return LinearCost(float(seconds_N.mean()), 0.0)
    ratio_N = number_N / seconds_N
    return LinearCost(0.0, float(ratio_N.sum() / (ratio_N**2).sum()))


@dataclass(frozen=True)
class Station:
    """One of `servers` is busy with each step for `demand_s`."""

    name: str
    demand_s: float
    servers: float = 1.0

    @property
    def least_s(self) -> float:
        """Seconds between two steps, if it never waits."""
        return self.demand_s / self.servers


Chain = Sequence[Station]


@dataclass(frozen=True)
class Prediction:
    """`binds` is the slowest station of the slowest chain, `busy` each station's utilisation."""

    sps: float
    binds: str
    busy: Mapping[str, float]


def predicted(chains: Sequence[Chain]) -> Prediction:
    """See the module's text."""
    slowest = max(chains, key=lambda chain: sum(station.least_s for station in chain))
    sps = 1.0 / sum(station.least_s for station in slowest)
    binds = max(slowest, key=lambda station: station.least_s).name
    return Prediction(
        sps, binds, {station.name: sps * station.least_s for chain in chains for station in chain}
    )


def alternating(first: Station, second: Station, *rest: Station) -> list[Chain]:
    """Two groups of envs: the quicker of the first two is hidden behind the slower, and the rest takes turns."""
    slower, quicker = sorted((first, second), key=lambda station: -station.least_s)
    return [(slower, *rest), (quicker,)]


def saturation(system: Callable[[float], Sequence[Chain]], most: int = 2**16) -> int:
    """The least number of actors from which on more of them bring less than half of their share; at most `most`.

    Of stations side by side that is where another than the actors binds, and in a chain where theirs is no longer half
    of the time.
    """

    def pays(actors: float) -> bool:
        return predicted(system(1.02 * actors)).sps > 1.01 * predicted(system(actors)).sps

    low, high = 0, most  # it pays up to `low`, and no longer from `high` on
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pays(middle) else (low, middle)
    return high
