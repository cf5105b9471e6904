"""Checks what a plug-in's sampling strategy has drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from veldt.errors import UsageError
from veldt.replay.sampling_registry import STRATEGIES, SampledRing


def checked_draw(drawn: Any, count: int, ring: SampledRing, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns what `SamplingStrategy.sample` of the strategy `name` returned.

    Raises:
        UsageError: it is no pair of `count` positions of sampleable rows and as many positive masses.
    """
    if not (isinstance(drawn, tuple) and len(drawn) == 2):
        raise _wrong(name, drawn, f"return the positions [{count}] and their masses [{count}], two arrays")
    position_N, mass_N = map(np.asarray, drawn)
    if position_N.shape != (count,) or not np.issubdtype(position_N.dtype, np.integer):
        raise _wrong(name, position_N, f"return {count} positions, an array of whole numbers [{count}]")
    if mass_N.shape != (count,) or not np.issubdtype(mass_N.dtype, np.number):
        raise _wrong(name, mass_N, f"return {count} masses, an array of numbers [{count}]")
    if not (np.isfinite(mass_N) & (mass_N > 0)).all():
        raise _wrong(name, mass_N, "return masses above 0")
    is_sampleable_N = _is_sampleable(position_N, ring)
    if not is_sampleable_N.all():
        position = position_N[~is_sampleable_N][0]
        raise _wrong(name, position, "draw only valid rows from ring.first up to ring.end (not included)")
    return position_N.astype(np.int64, copy=False), mass_N.astype(np.float64, copy=False)


def _is_sampleable(position_N: np.ndarray, ring: SampledRing) -> np.ndarray:
    """Returns whether there is a sampleable row at each position, bool [N]."""
    is_inside_N = (position_N >= 0) & (position_N < ring.valid.size)
    env_N, place_N = np.divmod(np.where(is_inside_N, position_N, 0), ring.rows)
    first_B, end_B = ring.first, ring.end
    age_N = (place_N - first_B[env_N]) % ring.rows
    return is_inside_N & ring.valid[env_N, place_N] & (age_N < (end_B - first_B)[env_N])


def _wrong(name: str, returned: Any, mend: str) -> UsageError:
    text = " ".join(str(returned).split())
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    return UsageError(f"sample of the {STRATEGIES.described(name)} returned {shown}: {mend}")
