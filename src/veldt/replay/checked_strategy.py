"""Makes a replay buffer's sampling strategy, and checks what that of a plug-in returns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from veldt.errors import UsageError
from veldt.replay.sampling_registry import STRATEGIES, SampledRing, SamplingStrategy


def make_strategy(name: str, ring: SampledRing, alpha: float) -> SamplingStrategy:
    """Returns a new strategy of this name; `alpha` is `--priority-exponent`."""
    strategy = STRATEGIES[name].make(ring, alpha)
    return strategy if STRATEGIES.plugin_of(name) is None else CheckedStrategy(name, strategy)


class CheckedStrategy(SamplingStrategy):
    """A plug-in's strategy. UsageError where it returns what a replay buffer cannot use."""

    def __init__(self, name: str, strategy: SamplingStrategy) -> None:
        super().__init__(strategy.ring, strategy.alpha)
        self._name, self._strategy = name, strategy

    def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        drawn: Any = self._strategy.sample(count, seed)
        if not (isinstance(drawn, tuple) and len(drawn) == 2):
            raise self._wrong(
                "sample", drawn, f"return the positions [{count}] and their masses [{count}], two arrays"
            )
        position_N, mass_N = map(np.asarray, drawn)
        if position_N.shape != (count,) or not np.issubdtype(position_N.dtype, np.integer):
            raise self._wrong(
                "sample", position_N, f"return {count} positions, an array of whole numbers [{count}]"
            )
        if mass_N.shape != (count,) or not np.issubdtype(mass_N.dtype, np.number):
            raise self._wrong("sample", mass_N, f"return {count} masses, an array of numbers [{count}]")
        if not (np.isfinite(mass_N) & (mass_N > 0)).all():
            raise self._wrong("sample", mass_N, "return masses above 0")
        is_sampleable_N = _is_sampleable(position_N, self.ring)
        if not is_sampleable_N.all():
            position = position_N[~is_sampleable_N][0]
            raise self._wrong(
                "sample", position, "draw only valid rows from ring.first up to ring.end (not included)"
            )
        return position_N.astype(np.int64, copy=False), mass_N.astype(np.float64, copy=False)

    @property
    def mass(self) -> float:
        total: Any = self._strategy.mass
        if not (isinstance(total, Real) and 0 < float(total) < np.inf):
            raise self._wrong("mass", total, "it must be the sum of the masses of all sampleable rows")
        return float(total)

    def written(self, removed_M: np.ndarray, added_M: np.ndarray, priority_M: np.ndarray | None) -> None:
        self._strategy.written(removed_M, added_M, priority_M)

    def update(self, position_N: np.ndarray, priority_N: np.ndarray) -> None:
        self._strategy.update(position_N, priority_N)

    def state(self) -> dict[str, np.ndarray]:
        arrays: Any = self._strategy.state()
        named = isinstance(arrays, dict) and all(isinstance(name, str) for name in arrays)
        if not (named and all(isinstance(array, np.ndarray) for array in arrays.values())):
            raise self._wrong("state", arrays, "return a dictionary of arrays (np.ndarray) by name")
        return dict(arrays)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._strategy.restore(arrays)

    def _wrong(self, what: str, returned: Any, mend: str) -> UsageError:
        shown = textwrap.shorten(str(returned), 60, placeholder=" ...")
        return UsageError(f"{what} of the {STRATEGIES.described(self._name)} is {shown}: {mend}")


def _is_sampleable(position_N: np.ndarray, ring: SampledRing) -> np.ndarray:
    """Returns whether there is a sampleable row at each position, bool [N]."""
    is_inside_N = (position_N >= 0) & (position_N < ring.valid.size)
    env_N, place_N = np.divmod(np.where(is_inside_N, position_N, 0), ring.rows)
    first_B, end_B = ring.first, ring.end
    age_N = (place_N - first_B[env_N]) % ring.rows
    return is_inside_N & ring.valid[env_N, place_N] & (age_N < (end_B - first_B)[env_N])
