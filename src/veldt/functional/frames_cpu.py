"""The CPU's kernels of `stack_frames`, apart so that numba is loaded only where frames are stacked."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def interleave(frames, age, t_N, b_N, out):  # type: ignore[no-untyped-def]
    """`out` uint8 [N, H, W, stack]; see `stack_frames`."""
    stack = out.shape[3]
    blank = np.zeros(frames.shape[2:], np.uint8)
    for n in range(len(t_N)):
        t, b = t_N[n], b_N[n]
        for k in range(stack):
            frame = frames[t + k, b] if age[t, b] >= stack - 1 - k else blank
            for y in range(out.shape[1]):
                for x in range(out.shape[2]):
                    out[n, y, x, k] = frame[y, x]


@numba.njit(nogil=True, cache=True)
def interleave_four(frames, age, t_N, b_N, out):  # type: ignore[no-untyped-def]
    """The same for the usual stack of 4, which the compiler vectorises when the frames have names."""
    blank = np.zeros(frames.shape[2:], np.uint8)
    for n in range(len(t_N)):
        t, b = t_N[n], b_N[n]
        oldest = frames[t, b] if age[t, b] >= 3 else blank
        older = frames[t + 1, b] if age[t, b] >= 2 else blank
        old = frames[t + 2, b] if age[t, b] >= 1 else blank
        newest = frames[t + 3, b]
        for y in range(out.shape[1]):
            for x in range(out.shape[2]):
                out[n, y, x, 0] = oldest[y, x]
                out[n, y, x, 1] = older[y, x]
                out[n, y, x, 2] = old[y, x]
                out[n, y, x, 3] = newest[y, x]


@numba.njit(nogil=True, cache=True)
def interleave_four_bf16(frames, age, t_N, b_N, out):  # type: ignore[no-untyped-def]
    """The same, written at once as bf16: `out` uint16 [N, H, W, 4] holds the bits.

    0 to 255 are exact in bf16, whose bits are the upper half of float32's.
    """
    width = out.shape[2]
    blank = np.zeros(frames.shape[2:], np.uint8)
    row = np.empty((width, 4), np.float32)
    bits = row.view(np.uint32)
    for n in range(len(t_N)):
        t, b = t_N[n], b_N[n]
        oldest = frames[t, b] if age[t, b] >= 3 else blank
        older = frames[t + 1, b] if age[t, b] >= 2 else blank
        old = frames[t + 2, b] if age[t, b] >= 1 else blank
        newest = frames[t + 3, b]
        for y in range(out.shape[1]):
            for x in range(width):
                row[x, 0] = oldest[y, x]
                row[x, 1] = older[y, x]
                row[x, 2] = old[y, x]
                row[x, 3] = newest[y, x]
            line = out[n, y]
            for x in range(width):
                for k in range(4):
                    line[x, k] = bits[x, k] >> 16
