"""Keys of transitions: the position and its generation r // R, so that a key stays unique after overwriting.

key = (r // R) B R + b R + r mod R     for row r of env b
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def keys_of(position_N, first_B, rows):  # type: ignore[no-untyped-def]
    """Returns the keys of sampleable rows, int64 [N]; `first_B` are the oldest sampleable rows."""
    key_N = np.empty(len(position_N), np.int64)
    for n in range(len(position_N)):
        b, place = divmod(position_N[n], rows)
        generation, oldest = divmod(first_B[b], rows)
        if place < oldest:
            generation += 1
        key_N[n] = generation * len(first_B) * rows + position_N[n]
    return key_N


@numba.njit(nogil=True, cache=True)
def positions_of(key_N, first_B, end_B, rows):  # type: ignore[no-untyped-def]
    """Returns the positions of keys, int64 [N], and whether their transitions are still sampleable, bool [N]."""
    position_N, is_there_N = np.empty(len(key_N), np.int64), np.empty(len(key_N), np.bool_)
    for n in range(len(key_N)):
        generation, position = divmod(key_N[n], len(first_B) * rows)
        b, place = divmod(position, rows)
        row = generation * rows + place
        position_N[n], is_there_N[n] = position, first_B[b] <= row < end_B[b]
    return position_N, is_there_N
