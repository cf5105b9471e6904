"""The CPU's kernel of `stack_frames`, apart so that numba is loaded only where frames are stacked."""

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
        age_n = age[t, b]
        if stack == 4:  # four named frames let the compiler vectorise
            oldest = frames[t, b] if age_n >= 3 else blank
            older = frames[t + 1, b] if age_n >= 2 else blank
            old = frames[t + 2, b] if age_n >= 1 else blank
            newest = frames[t + 3, b]
            for y in range(out.shape[1]):
                for x in range(out.shape[2]):
                    out[n, y, x, 0] = oldest[y, x]
                    out[n, y, x, 1] = older[y, x]
                    out[n, y, x, 2] = old[y, x]
                    out[n, y, x, 3] = newest[y, x]
        else:
            for k in range(stack):
                frame = frames[t + k, b] if age_n >= stack - 1 - k else blank
                for y in range(out.shape[1]):
                    for x in range(out.shape[2]):
                        out[n, y, x, k] = frame[y, x]
