"""Makes a replay buffer's sampling strategy, and checks what that of a plug-in returns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from veldt.errors import PluginError, UsageError, as_error
from veldt.replay.sampling_registry import STRATEGIES, SampledRing, SamplingStrategy
from veldt.runs.tensor_file import can_be_stored


def make_strategy(name: str, ring: SampledRing, alpha: float) -> SamplingStrategy:
    """Returns a new strategy of this name, checked if it is a plug-in's; `alpha` is `--priority-exponent`."""
    strategy = STRATEGIES[name].make(ring, alpha)
    return strategy if STRATEGIES.plugin_of(name) is None else CheckedStrategy(name, strategy)


class CheckedStrategy(SamplingStrategy):
    """A plug-in's strategy. UsageError where it returns what a replay buffer cannot use.

    `state` returns copies, because a checkpoint may be written while the strategy changes its arrays. PluginError where
    the strategy cannot restore its state, so that the checkpoint is not taken for a damaged one.
    """

    def __init__(self, name: str, strategy: SamplingStrategy) -> None:
        super().__init__(strategy.ring, strategy.alpha)
        self._name, self._strategy = name, strategy

    def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        drawn: Any = self._strategy.sample(count, seed)
        if not (isinstance(drawn, tuple) and len(drawn) == 2):
            raise self._wrong(
                "sample", drawn, f"return the positions [{count}] and their masses [{count}], two arrays"
            )
        position_N, mass_N = map(_as_array, drawn)
        if position_N.shape != (count,) or position_N.dtype.kind not in "iu":
            raise self._wrong(
                "sample", drawn[0], f"return {count} positions, an array of whole numbers [{count}]"
            )
        if mass_N.shape != (count,) or mass_N.dtype.kind not in "iuf":
            raise self._wrong(
                "sample", drawn[1], f"return {count} masses, an array of real numbers [{count}]"
            )
        if not (np.isfinite(mass_N) & (mass_N > 0)).all():
            raise self._wrong("sample", mass_N, "return finite masses above 0")
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
        for name, array in arrays.items():
            if not can_be_stored(array.dtype):
                raise self._wrong(
                    f"the array {name!r} in the state",
                    array.dtype,
                    "a checkpoint takes real numbers and True or False",
                )
        return {name: array.copy() for name, array in arrays.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        described = STRATEGIES.described(self._name)
        failed = (
            f"the {described} failed to restore what its state had returned (--checkpoint-replay none continues with "
            "an empty buffer)"
        )
        with as_error(PluginError, failed):
            self._strategy.restore(arrays)

    def _wrong(self, what: str, returned: Any, mend: str) -> UsageError:
        shown = textwrap.shorten(str(returned), 60, placeholder=" ...")
        return UsageError(f"{what} of the {STRATEGIES.described(self._name)} is {shown}: {mend}")


def _as_array(returned: Any) -> np.ndarray:
    """Returns it as an array; an empty one if it is none, such as a list of lists of several lengths."""
    try:
        return np.asarray(returned)
    except Exception:  # what has an __array__ of its own, such as a tensor, may raise anything
        return np.empty(0)


def _is_sampleable(position_N: np.ndarray, ring: SampledRing) -> np.ndarray:
    """Returns whether there is a sampleable row at each position, bool [N]."""
    is_inside_N = (position_N >= 0) & (position_N < ring.valid.size)
    env_N, place_N = np.divmod(np.where(is_inside_N, position_N, 0), ring.rows)
    first_B, end_B = ring.first, ring.end
    age_N = (place_N - first_B[env_N]) % ring.rows
    return is_inside_N & ring.valid[env_N, place_N] & (age_N < (end_B - first_B)[env_N])
